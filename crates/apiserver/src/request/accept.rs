//! Content negotiation: which form the answer has, which form the body has.
//!
//! Upstream negotiates twice for built-in resources: a router first compares media types literally, then the handler
//! reads parameters. Custom resources have no router. The words differ accordingly, and so do a few verdicts:
//! `application/*` gets no built-in resource. Answers are JSON or YAML, never protobuf or CBOR; bodies may be protobuf.

use crate::status::ApiError;

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `application/json`
    Json,
    /// `application/yaml`
    Yaml,
}

impl Format {
    /// The media type.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
        }
    }
}

const FORMATS: [Format; 2] = [Format::Json, Format::Yaml];

/// Into what objects are turned before they are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transform {
    /// A `Table`.
    Table,
    /// A `PartialObjectMetadata` for one object, and for each event of a watch.
    Partial,
    /// A `PartialObjectMetadataList`.
    PartialList,
}

/// The version of `meta.k8s.io` that transformed objects have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MetaVersion {
    /// `v1`
    #[default]
    V1,
    /// `v1beta1`
    V1Beta1,
}

impl MetaVersion {
    /// The `apiVersion`.
    pub const fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// The result of content negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The format.
    pub format: Format,
    /// The transformation, if one is asked for.
    pub transform: Option<(Transform, MetaVersion)>,
    /// Indented.
    pub pretty: bool,
}

/// The part of the server that answers; it decides about messages, and a little about accepted types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A resource that the server has built in.
    BuiltIn,
    /// A resource that a CRD defines.
    Custom,
}

/// Negotiates the form of lists, and of what else can be watched at the same path.
pub fn negotiate(accept: Option<&str>, endpoint: Endpoint) -> Result<Accepted, ApiError> {
    let available = ["application/json", "application/yaml", "application/json;stream=watch"];
    negotiate_among(accept, endpoint, &available, |_| true)
}

/// Negotiates the form of one object.
pub fn negotiate_one(accept: Option<&str>, endpoint: Endpoint) -> Result<Accepted, ApiError> {
    negotiate_among(accept, endpoint, &FORMATS.map(Format::media_type), |_| true)
}

/// Negotiates the form of responses that are never printed as a table.
pub fn negotiate_untabled(accept: Option<&str>, endpoint: Endpoint) -> Result<Accepted, ApiError> {
    negotiate_among(accept, endpoint, &FORMATS.map(Format::media_type), |kind| kind != Transform::Table)
}

fn negotiate_among(
    accept: Option<&str>,
    endpoint: Endpoint,
    available: &[&str],
    allows: fn(Transform) -> bool,
) -> Result<Accepted, ApiError> {
    let header = accept.unwrap_or_default();
    if header.is_empty() {
        return Ok(Accepted { format: Format::Json, transform: None, pretty: false });
    }
    if endpoint == Endpoint::BuiltIn {
        route(header, available)?;
    }
    for clause in clauses(header) {
        let formats = FORMATS.into_iter().filter(|format| clause.allows(format.media_type()));
        for format in formats {
            let accepted = clause.accept(format);
            if let Some(accepted) = accepted.filter(|it| it.transform.is_none_or(|(kind, _)| allows(kind))) {
                return Ok(accepted);
            }
        }
    }
    Err(only(&FORMATS.map(Format::media_type)))
}

/// Negotiates the form of a watch, which is JSON or nothing.
pub fn negotiate_watch(accept: Option<&str>, endpoint: Endpoint) -> Result<Accepted, ApiError> {
    match negotiate(accept, endpoint)? {
        Accepted { format: Format::Yaml, .. } => Err(only(&["application/json;stream=watch"])),
        accepted => Ok(accepted),
    }
}

/// The form of a discovery document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Discovery {
    /// The format.
    pub format: Format,
    /// All groups in one document, of `apidiscovery.k8s.io/v2`.
    pub aggregated: bool,
    /// Indented.
    pub pretty: bool,
}

impl Discovery {
    /// The content type of the answer, which repeats what was asked for.
    pub const fn content_type(self) -> &'static str {
        match (self.aggregated, self.format) {
            (false, format) => format.media_type(),
            (true, Format::Json) => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            (true, Format::Yaml) => "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        }
    }
}

/// Negotiates the form of discovery documents; only `/api` and `/apis` can be aggregated. All have a router in front
/// of them and are [`Endpoint::BuiltIn`], except `/apis`.
pub fn negotiate_discovery(accept: Option<&str>, endpoint: Endpoint) -> Result<Discovery, ApiError> {
    let header = accept.unwrap_or_default();
    if header.is_empty() {
        return Ok(Discovery { format: Format::Json, aggregated: false, pretty: false });
    }
    if endpoint == Endpoint::BuiltIn {
        route(header, &FORMATS.map(Format::media_type))?;
    }
    let clauses = clauses(header);
    let matching = |clause: &Clause<'_>| {
        let mut formats = FORMATS.into_iter().filter(|format| clause.allows(format.media_type()));
        formats.find(|format| clause.get("sv").is_none() && clause.may_stream(*format))
    };
    let kind = Some(("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList"));
    for (aggregated, wanted) in [(true, kind), (false, None)] {
        let mut found = clauses.iter().filter(|clause| clause.kind() == wanted);
        if let Some((clause, format)) = found.find_map(|clause| Some((clause, matching(clause)?))) {
            return Ok(Discovery { format, aggregated, pretty: clause.get("pretty") == Some("1") });
        }
    }
    Err(only(&FORMATS.map(Format::media_type)))
}

/// Returns whether a client of `/openapi/…` takes JSON; `None` is 406, with an empty body as upstream.
pub fn negotiate_openapi(accept: Option<&str>) -> Option<Format> {
    let header = accept.filter(|header| !header.is_empty()).unwrap_or("*/*");
    clauses(header).iter().any(|clause| clause.allows("application/json")).then_some(Format::Json)
}

/// Answers of this size or less are sent as they are: compressing them costs more than it saves.
pub const GZIP_THRESHOLD: usize = 128 * 1024;

/// Returns whether an answer of `length` bytes is compressed. As upstream, which takes the word `gzip` and no weights.
pub fn gzip(accept_encoding: Option<&str>, length: usize) -> bool {
    let offered = || accept_encoding.unwrap_or_default().split(',').any(|coding| coding.trim() == "gzip");
    length > GZIP_THRESHOLD && offered()
}

/// The format of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// `application/json-patch+json`
    Json,
    /// `application/merge-patch+json`
    Merge,
    /// `application/strategic-merge-patch+json`, for built-in kinds.
    Strategic,
    /// `application/apply-patch+yaml`
    Apply,
}

impl PatchType {
    /// The format of its body.
    pub const fn format(self) -> Format {
        match self {
            Self::Json | Self::Merge | Self::Strategic => Format::Json,
            // JSON is YAML.
            Self::Apply => Format::Yaml,
        }
    }
}

/// The form of the body of a POST, PUT or DELETE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFormat {
    /// A text.
    Text(Format),
    /// `application/vnd.kubernetes.protobuf`, for kinds that are built in.
    Protobuf,
}

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The format of the body of a POST, PUT or DELETE.
pub fn body_format(content_type: Option<&str>, endpoint: Endpoint) -> Result<BodyFormat, ApiError> {
    let given = content_type.filter(|given| !given.is_empty()).unwrap_or("application/json");
    let essence = given.split(';').next().unwrap_or_default().trim();
    if endpoint == Endpoint::BuiltIn && essence.eq_ignore_ascii_case(PROTOBUF) {
        return Ok(BodyFormat::Protobuf);
    }
    let format = FORMATS.into_iter().find(|format| essence.eq_ignore_ascii_case(format.media_type()));
    format.map(BodyFormat::Text).ok_or_else(|| {
        let texts = FORMATS.map(Format::media_type);
        match endpoint {
            Endpoint::BuiltIn => unknown_format(&[texts[0], texts[1], PROTOBUF]),
            Endpoint::Custom => unknown_format(&texts),
        }
    })
}

/// The type of a patch.
pub fn patch_type(content_type: Option<&str>, endpoint: Endpoint) -> Result<PatchType, ApiError> {
    let given = content_type.unwrap_or_default();
    match (given.split(';').next().unwrap_or_default(), endpoint) {
        ("application/json-patch+json", _) => Ok(PatchType::Json),
        ("application/merge-patch+json", _) => Ok(PatchType::Merge),
        ("application/apply-patch+yaml", _) => Ok(PatchType::Apply),
        ("application/strategic-merge-patch+json", Endpoint::BuiltIn) => Ok(PatchType::Strategic),
        (_, Endpoint::BuiltIn) => {
            let message = "415: Unsupported Media Type".to_owned();
            Err(ApiError::UnsupportedMediaType { message, routed: true })
        }
        (_, Endpoint::Custom) => Err(unknown_format(&[
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/apply-patch+yaml",
        ])),
    }
}

fn unknown_format(accepted: &[&str]) -> ApiError {
    let accepted = accepted.join(", ");
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: {accepted}"
    );
    ApiError::UnsupportedMediaType { message, routed: false }
}

fn only(accepted: &[&str]) -> ApiError {
    let message = format!("only the following media types are accepted: {}", accepted.join(", "));
    ApiError::NotAcceptable { message, routed: false }
}

/// Negotiation of the router: one of the types must be named, or everything.
fn route(header: &str, available: &[&str]) -> Result<(), ApiError> {
    let named = |clause: &str| {
        let essence = clause.split(';').next().unwrap_or_default().trim();
        essence == "*/*" || available.contains(&essence)
    };
    if header.split(',').any(named) {
        return Ok(());
    }
    let message = format!("406: Not Acceptable\n\nAvailable representations: {}", available.join(", "));
    Err(ApiError::NotAcceptable { message, routed: true })
}

/// One alternative of an `Accept` header.
#[derive(Debug)]
struct Clause<'a> {
    kind: &'a str,
    subtype: &'a str,
    weight: f32,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';');
        let media = parts.next().unwrap_or_default().trim_matches(' ');
        let (kind, subtype) = match media.split('/').collect::<Vec<_>>().as_slice() {
            ["*"] => ("*", "*"),
            [kind, subtype] if !subtype.is_empty() => (kind.trim_matches(' '), subtype.trim_matches(' ')),
            _ => return None,
        };
        let mut clause = Self { kind, subtype, weight: 1.0, parameters: Vec::new() };
        for part in parts {
            match part.split('=').collect::<Vec<_>>().as_slice() {
                [key, weight] if key.trim_matches(' ') == "q" => {
                    clause.weight = weight.parse().unwrap_or(0.0);
                }
                [key, value] if !value.is_empty() => {
                    clause.parameters.push((key.trim_matches(' '), value.trim_matches(' ')));
                }
                _ => {}
            }
        }
        Some(clause)
    }

    fn allows(&self, media_type: &str) -> bool {
        match (self.kind, self.subtype) {
            ("*", "*") => true,
            (kind, "*") => media_type.split('/').next() == Some(kind),
            (kind, subtype) => media_type.split_once('/') == Some((kind, subtype)),
        }
    }

    fn get(&self, key: &str) -> Option<&'a str> {
        self.parameters.iter().rev().find(|(name, _)| *name == key).map(|(_, value)| *value)
    }

    /// The kind objects shall be turned into: group, version, kind.
    fn kind(&self) -> Option<(&'a str, &'a str, &'a str)> {
        let [group, version, kind] = ["g", "v", "as"].map(|key| self.get(key));
        let text = Option::unwrap_or_default;
        [group, version, kind].iter().any(Option::is_some).then(|| (text(group), text(version), text(kind)))
    }

    /// Only JSON is streamed, and only for watches.
    fn may_stream(&self, format: Format) -> bool {
        self.get("stream").is_none_or(|stream| format == Format::Json && stream == "watch")
    }

    fn accept(&self, format: Format) -> Option<Accepted> {
        if !self.may_stream(format) || self.get("sv").is_some_and(|version| version != "v1") {
            return None;
        }
        let transform = match self.kind() {
            None => None,
            Some((group, version, kind)) => Some((transform(kind)?, meta_version(group, version)?)),
        };
        Some(Accepted { format, transform, pretty: self.get("pretty") == Some("1") })
    }
}

fn transform(kind: &str) -> Option<Transform> {
    match kind {
        "Table" => Some(Transform::Table),
        "PartialObjectMetadata" => Some(Transform::Partial),
        "PartialObjectMetadataList" => Some(Transform::PartialList),
        _ => None,
    }
}

fn meta_version(group: &str, version: &str) -> Option<MetaVersion> {
    match (group, version) {
        ("meta.k8s.io", "v1") => Some(MetaVersion::V1),
        ("meta.k8s.io", "v1beta1") => Some(MetaVersion::V1Beta1),
        _ => None,
    }
}

/// The alternatives, the most wanted first.
fn clauses(header: &str) -> Vec<Clause<'_>> {
    let mut sorted: Vec<Clause<'_>> = header.split(',').filter_map(Clause::parse).collect();
    // Stable, so that the first of equals wins: by weight, then the more specific.
    sorted.sort_by(|a, b| {
        let wild = |clause: &Clause<'_>| (clause.kind == "*", clause.subtype == "*");
        b.weight.total_cmp(&a.weight).then(wild(a).cmp(&wild(b)))
    });
    sorted
}
