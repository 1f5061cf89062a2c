//! Bodies of writes: decoded, with what is wrong said in upstream's words.
//!
//! ```text
//! bytes --decode--> DecodedBody --check_kind--> the kind the path promises --(schema, elsewhere)--> object
//! ```

use bytes::Bytes;
use serde_json::Value;

use super::{
    accept::{BodyFormat, Format},
    yaml,
};
use crate::{
    bounds,
    builtin::protobuf::{self, ObjectError, ProtobufError},
    json,
    resource::{Resource, api_version},
    status::{ApiError, Cause, GroupResource, go},
};

/// The largest body, in bytes: kube-apiserver's limit for etcd's sake, kept because clients know it.
pub const BODY_LIMIT: usize = bounds::MAX_BYTES;

/// The bytes of a body that a message shows.
const SUMMARY: usize = 30;

/// A body, decoded.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodedBody {
    /// The value.
    pub value: Value,
    /// Duplicate fields; the last one counts.
    pub repeated: Repeated,
}

/// Duplicate fields of a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Repeated {
    /// Nothing.
    #[default]
    Nothing,
    /// Members of JSON, each with its path.
    Members(Vec<String>),
    /// Keys of YAML, each with its line.
    Keys(Vec<String>),
}

impl Repeated {
    fn members(paths: Vec<String>) -> Self {
        if paths.is_empty() { Self::Nothing } else { Self::Members(paths) }
    }

    fn keys(repeated: &[capt_yaml::Repeated]) -> Self {
        if repeated.is_empty() {
            return Self::Nothing;
        }
        let key = |again: &capt_yaml::Repeated| {
            let key = match &again.key {
                Value::String(text) => go::quote(text),
                Value::Null => "<nil>".to_owned(),
                other => other.to_string(),
            };
            format!("line {}: key {key} already set in map", again.line)
        };
        Self::Keys(repeated.iter().map(key).collect())
    }

    /// The problems of a strict write.
    pub fn problems(&self) -> Vec<String> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Members(paths) => paths.iter().map(|path| duplicate_field(path)).collect(),
            Self::Keys(lines) => vec![format!("yaml: unmarshal errors:\n  {}", lines.join("\n  "))],
        }
    }

    /// The warnings of a write whose field validation is not strict.
    pub fn warnings(&self) -> Vec<String> {
        match self {
            Self::Nothing | Self::Members(_) => self.problems(),
            Self::Keys(lines) => lines.clone(),
        }
    }
}

/// Why a body is no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// More than [`BODY_LIMIT`].
    #[error("Request entity too large: limit is {BODY_LIMIT}")]
    TooLarge,
    /// More than [`bounds::MAX_VALUES`] values.
    #[error("Request entity too large: the allowed maximum of values is {}", bounds::MAX_VALUES)]
    TooMany,
    /// Not JSON.
    #[error("couldn't get version/kind; json parse error: {0}")]
    Json(String),
    /// Not YAML.
    #[error("{0}")]
    Yaml(String),
    /// Not protobuf.
    #[error(transparent)]
    Protobuf(#[from] ProtobufError),
}

/// Decodes a body that should be of a kind.
pub fn decode_kind(
    bytes: &Bytes,
    format: BodyFormat,
    (group, kind): (&str, &str),
) -> Result<DecodedBody, BodyError> {
    match format {
        BodyFormat::Text(format) => decode(bytes, format),
        BodyFormat::Protobuf if bytes.len() > BODY_LIMIT => Err(BodyError::TooLarge),
        BodyFormat::Protobuf => {
            Ok(DecodedBody { value: protobuf::decode(bytes, group, kind)?, repeated: Repeated::Nothing })
        }
    }
}

/// Decodes a JSON or YAML body.
pub fn decode(bytes: &Bytes, format: Format) -> Result<DecodedBody, BodyError> {
    if bytes.len() > BODY_LIMIT {
        return Err(BodyError::TooLarge);
    }
    match format {
        Format::Json => {
            let json::Parsed { value, duplicates } = json::parse(bytes).map_err(|error| match error {
                json::ParseError::Syntax(error) => BodyError::Json(error),
                json::ParseError::TooMany => BodyError::TooMany,
            })?;
            Ok(DecodedBody { value, repeated: Repeated::members(duplicates) })
        }
        Format::Yaml => {
            let (mut value, repeated) = yaml::parse(bytes).map_err(BodyError::Yaml)?;
            // Upstream makes JSON of it first, with its members in order; so what is wrong is found in order.
            value.sort_all_objects();
            Ok(DecodedBody { value, repeated: Repeated::keys(&repeated) })
        }
    }
}

impl BodyError {
    /// The answer to the write of an object of a kind.
    pub fn of_kind(&self, kind: &str, body: &[u8]) -> ApiError {
        match self {
            Self::TooLarge => ApiError::too_large_body(BODY_LIMIT),
            Self::TooMany | Self::Protobuf(ProtobufError::Object(ObjectError::Values)) => {
                bounds::Exceeded::Values.into()
            }
            Self::Protobuf(ProtobufError::Object(error)) => ApiError::BadRequest(format!(
                "{kind} in version \"v1\" cannot be handled as a {kind}: {error}"
            )),
            Self::Json(_) | Self::Yaml(_) | Self::Protobuf(_) => unrecognized(kind, &self.to_string(), body),
        }
    }

    /// The answer to a patch that is this.
    pub fn of_patch(&self) -> ApiError {
        match self {
            Self::TooLarge => ApiError::too_large_body(BODY_LIMIT),
            Self::TooMany => bounds::Exceeded::Values.into(),
            Self::Json(error) => ApiError::BadRequest(format!("error decoding patch: {error}")),
            Self::Yaml(error) => ApiError::BadRequest(format!("error decoding YAML: {error}")),
            // No patch is protobuf: its type is refused before.
            Self::Protobuf(error) => ApiError::BadRequest(format!("error decoding patch: {error}")),
        }
    }

    /// The answer to a delete whose options are this.
    pub fn of_options(&self) -> ApiError {
        match self {
            Self::TooLarge => ApiError::too_large_body(BODY_LIMIT),
            Self::TooMany => bounds::Exceeded::Values.into(),
            Self::Json(_) | Self::Yaml(_) | Self::Protobuf(_) => ApiError::BadRequest(self.to_string()),
        }
    }
}

fn unrecognized(kind: &str, why: &str, body: &[u8]) -> ApiError {
    let summary = summary(body);
    let text = format!("the object provided is unrecognized (must be of type {kind}): {why} ({summary})");
    ApiError::BadRequest(text)
}

/// The beginning of a body: as text if it looks like JSON, else in hexadecimal.
fn summary(body: &[u8]) -> String {
    let Some(first) = body.first() else { return "<empty>".to_owned() };
    let shown = body.get(..SUMMARY).unwrap_or(body);
    let mut text = if *first == b'{' {
        String::from_utf8_lossy(shown).into_owned()
    } else {
        shown
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 0xf])
            .filter_map(|digit| char::from_digit(digit.into(), 16))
            .collect()
    };
    if body.len() > SUMMARY {
        text.push_str(" ...");
    }
    text
}

/// Returns whether a decoded body is an object of the kind and version that the path promises.
///
/// Built-in kinds may leave `kind` and `apiVersion` out, and have them after this; custom ones may not.
pub fn check_kind(
    value: &mut Value,
    resource: &Resource,
    version: &str,
    body: &[u8],
) -> Result<(), ApiError> {
    let expected = api_version(&resource.group, version);
    if value.is_null() && !resource.custom {
        *value = Value::Object(serde_json::Map::new());
    }
    let (kind, given) = match &*value {
        Value::Object(_) => {
            (type_text(value, "kind", resource, body)?, type_text(value, "apiVersion", resource, body)?)
        }
        Value::Null => (String::new(), String::new()),
        other => {
            let why = format!(
                "couldn't get version/kind; json parse error: json: cannot unmarshal {} {TYPE_META}",
                json::kind_of(other)
            );
            return Err(unrecognized(&resource.kind, &why, body));
        }
    };
    if resource.custom {
        let name = value["metadata"]["name"].as_str().unwrap_or_default();
        return check_custom(&kind, &given, &expected, name, resource, body);
    }
    let found_kind = if kind.is_empty() { resource.kind.as_str() } else { &kind };
    let found_version = if given.is_empty() { expected.as_str() } else { &given };
    if found_kind != resource.kind || found_version != expected {
        let short = found_version.rsplit('/').next().unwrap_or_default();
        let known = found_version == expected && crate::builtin::decode::is_kind(&resource.group, found_kind);
        let decoded =
            known.then(|| crate::builtin::decode::decode(&resource.group, found_kind, value.clone()));
        let why = if let Some(Err(error)) = decoded {
            error.to_string()
        } else if known {
            let inner = match resource.group.as_str() {
                "" | "events.k8s.io" => "core",
                group => group.split('.').next().unwrap_or_default(),
            };
            format!("converting ({short}.{found_kind}) to ({inner}.{}): unknown conversion", resource.kind)
        } else {
            format!(
                "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
                go::quote(found_kind),
                go::quote(found_version)
            )
        };
        let (short, kind) = (go::quote(short), &resource.kind);
        let text = format!("{found_kind} in version {short} cannot be handled as a {kind}: {why}");
        return Err(ApiError::BadRequest(text));
    }
    value["apiVersion"] = expected.into();
    value["kind"] = resource.kind.as_str().into();
    Ok(())
}

pub(super) const TYPE_META: &str = "into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind \
                         string \"json:\\\"kind,omitempty\\\"\" }";

fn type_text(value: &Value, key: &str, resource: &Resource, body: &[u8]) -> Result<String, ApiError> {
    match &value[key] {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        other => {
            let field = json::kind_of(other);
            let why = format!(
                "couldn't get version/kind; json parse error: json: cannot unmarshal {field} into Go struct field \
                 .{key} of type string"
            );
            Err(unrecognized(&resource.kind, &why, body))
        }
    }
}

fn check_custom(
    kind: &str,
    given: &str,
    expected: &str,
    name: &str,
    resource: &Resource,
    body: &[u8],
) -> Result<(), ApiError> {
    if kind.is_empty() {
        let shown = String::from_utf8_lossy(body);
        let why = format!("Object 'Kind' is missing in '{shown}'");
        return Err(unrecognized(&resource.kind, &why, body));
    }
    if given != expected {
        let text = format!(
            "the API version in the data ({given}) does not match the expected API version ({expected})"
        );
        return Err(ApiError::BadRequest(text));
    }
    if kind != resource.kind {
        let cause = Cause::invalid("kind", &Value::from(kind), &format!("must be {}", resource.kind));
        return Err(ApiError::Invalid {
            kind: GroupResource::new(&resource.group, kind),
            name: name.to_owned(),
            causes: vec![cause],
        });
    }
    Ok(())
}

/// Message for a duplicate field.
pub fn duplicate_field(path: &str) -> String {
    format!("duplicate field {}", go::quote(path))
}

/// Message for a field that the schema does not have.
pub fn unknown_field(path: &str) -> String {
    format!("unknown field {}", go::quote(path))
}

/// The answer to a strict write with such members; `problems` are the texts of [`duplicate_field`] and
/// [`unknown_field`], duplicates first.
pub fn strict_error(kind: &str, version: &str, problems: &[String]) -> ApiError {
    let problems = problems.join(", ");
    let version = go::quote(version);
    let text = format!(
        "{kind} in version {version} cannot be handled as a {kind}: strict decoding error: {problems}"
    );
    ApiError::BadRequest(text)
}
