//! URL paths.
//!
//! [`RequestPath::parse`] is total: every text is a target, what the server does not know is [`RequestPath::Unknown`]. It knows
//! the shapes of paths, not which resources exist. As upstream, the path is decoded first and split then, so an
//! encoded slash separates like any other.
//!
//! ```text
//! /api/v1[/watch][/namespaces/NS]/RESOURCE[/NAME[/SUBRESOURCE]]     core group
//! /apis/GROUP/VERSION[/watch][/namespaces/NS]/RESOURCE[/NAME[/SUBRESOURCE]]
//! /api  /apis  /apis/GROUP  /api/v1  /apis/GROUP/VERSION            discovery
//! /                                                                 the list of paths
//! /openapi/v2  /openapi/v3  /openapi/v3/apis/GROUP/VERSION  /version  /livez  /readyz  /healthz  /metrics
//! ```

use http::Method;
use percent_encoding::percent_decode_str;

use crate::rbac;
use crate::status::{ApiError, GroupResource, go};

/// The meaning of a URL path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestPath {
    /// `/` and `/index.html`: the list of paths.
    Root,
    /// `/api`: versions of the core group.
    CoreVersions,
    /// `/apis`: groups.
    Groups,
    /// `/apis/GROUP`: versions of a group.
    Group(String),
    /// `/api/v1` and `/apis/GROUP/VERSION`: resources of a version.
    Resources(GroupVersion),
    /// A resource, an object or a subresource.
    Resource(ResourcePath),
    /// `/openapi/v2`.
    OpenApiV2,
    /// `/openapi/v3`: where the documents are.
    OpenApiV3Index,
    /// `/openapi/v3/…`: one document.
    OpenApiV3(GroupVersion),
    /// `/version`.
    Version,
    /// `/livez`, `/readyz`, `/healthz`, and one of their checks.
    Health(Probe, Option<String>),
    /// `/metrics`.
    Metrics,
    /// A path below an API that has no meaning: a `Status` says so.
    UnknownResource,
    /// Any other path.
    Unknown,
    /// Not a path: bad percent-encoding, or not UTF-8.
    Malformed,
}

/// An API group and one of its versions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupVersion {
    /// Empty for the core group.
    pub group: String,
    /// Such as `v1beta1`.
    pub version: String,
}

impl std::fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.version)
        } else {
            write!(f, "{}/{}", self.group, self.version)
        }
    }
}

/// A question about the health of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// `/livez`.
    Live,
    /// `/readyz`.
    Ready,
    /// `/healthz`, the older form.
    Health,
}

impl Probe {
    /// The first part of the path.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Live => "livez",
            Self::Ready => "readyz",
            Self::Health => "healthz",
        }
    }
}

/// A path to a resource, an object or a subresource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourcePath {
    /// Group and version.
    pub version: GroupVersion,
    /// `None` for cluster-scoped objects and for lists over all namespaces. Namespaces are not in themselves.
    pub namespace: Option<String>,
    /// The plural.
    pub resource: String,
    /// The object; `None` for the collection.
    pub name: Option<String>,
    /// Such as `status`.
    pub subresource: Option<String>,
    /// `/watch/` before the resource: the older way to ask for a watch.
    pub watch: bool,
}

/// The verb of a request on a resource, as RBAC names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read a collection.
    List,
    /// Follow a collection.
    Watch,
    /// Add an object.
    Create,
    /// Replace an object.
    Update,
    /// Change an object.
    Patch,
    /// Remove an object.
    Delete,
    /// Remove all of a collection.
    DeleteCollection,
}

impl Verb {
    /// The word in rules and messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

impl RequestPath {
    /// The target of a path, given as it stands in the request line, without the query.
    pub fn parse(path: &str) -> Self {
        let Some(path) = decode(path) else { return Self::Malformed };
        let Some(rest) = path.strip_prefix('/') else { return Self::Unknown };
        // One slash at the end means nothing, except for probes, whose checks are paths of their own.
        let trimmed = rest.strip_suffix('/').unwrap_or(rest);
        let parts: Vec<&str> = if trimmed.is_empty() { Vec::new() } else { trimmed.split('/').collect() };
        match parts.as_slice() {
            [] if rest.is_empty() => Self::Root,
            ["index.html"] if rest == trimmed => Self::Root,
            ["api"] => Self::CoreVersions,
            ["apis"] => Self::Groups,
            ["api" | "apis", inner @ ..] if inner.contains(&"") => Self::UnknownResource,
            ["api", version] => Self::Resources(group_version("", version)),
            ["api", version, inner @ ..] => resource(group_version("", version), inner),
            ["apis", group] => Self::Group((*group).to_owned()),
            ["apis", group, version] => Self::Resources(group_version(group, version)),
            ["apis", group, version, inner @ ..] => resource(group_version(group, version), inner),
            ["version"] => Self::Version,
            ["openapi", "v2"] if rest == trimmed => Self::OpenApiV2,
            ["openapi", "v3"] if rest == trimmed => Self::OpenApiV3Index,
            ["openapi", "v3", "api", version] => Self::OpenApiV3(group_version("", version)),
            ["openapi", "v3", "apis", group, version] => Self::OpenApiV3(group_version(group, version)),
            ["metrics"] if rest == trimmed => Self::Metrics,
            [probe, check @ ..] if rest == trimmed => health(probe, check),
            _ => Self::Unknown,
        }
    }
}

fn decode(path: &str) -> Option<String> {
    let decoded = percent_decode_str(path).decode_utf8().ok()?;
    // What is left undecoded was no escape at all.
    let escapes = path.bytes().filter(|b| *b == b'%').count();
    (path.len() - decoded.len() == 2 * escapes && !decoded.contains('\0')).then(|| decoded.into_owned())
}

fn group_version(group: &str, version: &str) -> GroupVersion {
    GroupVersion { group: group.to_owned(), version: version.to_owned() }
}

fn health(probe: &str, check: &[&str]) -> RequestPath {
    let probe = match probe {
        "livez" => Probe::Live,
        "readyz" => Probe::Ready,
        "healthz" => Probe::Health,
        _ => return RequestPath::Unknown,
    };
    RequestPath::Health(probe, (!check.is_empty()).then(|| check.join("/")))
}

fn resource(version: GroupVersion, parts: &[&str]) -> RequestPath {
    let (watch, parts) = match parts {
        ["watch", rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    // `status` and `finalize` below a namespace are its own; everything else is a resource in it.
    let (namespace, parts) = match parts {
        ["namespaces", _, "status" | "finalize", ..] => (None, parts),
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
        rest => (None, rest),
    };
    let (resource, name, subresource) = match parts {
        [resource] => (*resource, None, None),
        [resource, name] => (*resource, Some(*name), None),
        [resource, name, subresource] => (*resource, Some(*name), Some(*subresource)),
        _ => return RequestPath::UnknownResource,
    };
    let owned = |text: Option<&str>| text.map(str::to_owned);
    RequestPath::Resource(ResourcePath {
        version,
        namespace: owned(namespace),
        resource: resource.to_owned(),
        name: owned(name),
        subresource: owned(subresource),
        watch,
    })
}

impl ResourcePath {
    /// The verb of a method on this path; `watch` is the query parameter. `None` for methods that no resource has.
    ///
    /// HEAD counts as reading when rights are asked about; built-in resources answer it with 405 all the same.
    pub fn verb(&self, method: &Method, watch: bool) -> Option<Verb> {
        let verb = match (method.as_str(), &self.name) {
            ("GET" | "HEAD", _) if self.watch => Verb::Watch,
            ("GET" | "HEAD", Some(_)) => Verb::Get,
            ("GET" | "HEAD", None) if watch => Verb::Watch,
            ("GET" | "HEAD", None) => Verb::List,
            ("POST", _) => Verb::Create,
            ("PUT", _) => Verb::Update,
            ("PATCH", _) => Verb::Patch,
            ("DELETE", Some(_)) => Verb::Delete,
            ("DELETE", None) => Verb::DeleteCollection,
            _ => return None,
        };
        Some(verb)
    }

    /// The namespace for questions of rights: a namespace is in itself there.
    pub fn authorization_namespace(&self) -> Option<&str> {
        authorization_namespace(self.namespace.as_deref(), &self.resource, self.name.as_deref())
    }

    /// The error for a user who is not allowed to do this; `why` adds a reason, where there is one.
    pub fn forbidden(&self, user: &str, verb: Verb, why: &str) -> ApiError {
        let text = Option::unwrap_or_default;
        let wanted = rbac::ResourceAttributes {
            group: &self.version.group,
            plural: &self.resource,
            subresource: text(self.subresource.as_deref()),
            name: text(self.name.as_deref()),
            namespace: text(self.authorization_namespace()),
        };
        forbidden_resource(user, verb, &wanted, why)
    }

    /// Refuses names that could not be the last segment of a path.
    pub fn check_name(&self) -> Result<(), ApiError> {
        self.name.as_deref().map_or(Ok(()), check_name)
    }
}

/// Refuses a name that could not be the last segment of a path.
pub fn check_name(name: &str) -> Result<(), ApiError> {
    let wrong = match name {
        "." | ".." => format!("may not be '{name}'"),
        name if name.contains('%') => "may not contain '%'".to_owned(),
        _ => return Ok(()),
    };
    Err(ApiError::BadRequest(format!("Name parameter invalid: {}: {wrong}", go::quote(name))))
}

/// The namespace whose rights count: a namespace is in itself.
pub fn authorization_namespace<'a>(
    namespace: Option<&'a str>,
    plural: &str,
    name: Option<&'a str>,
) -> Option<&'a str> {
    if namespace.is_none() && plural == "namespaces" { name } else { namespace }
}

/// The error for a user who is not allowed to do this with a resource.
pub fn forbidden_resource(
    user: &str,
    verb: Verb,
    wanted: &rbac::ResourceAttributes<'_>,
    why: &str,
) -> ApiError {
    let &rbac::ResourceAttributes { group, plural, subresource, name, namespace } = wanted;
    let resource = match subresource {
        "" => plural.to_owned(),
        subresource => format!("{plural}/{subresource}"),
    };
    let place = match namespace {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {}", go::quote(namespace)),
    };
    let (user, resource, quoted) = (go::quote(user), go::quote(&resource), go::quote(group));
    let verb = verb.as_str();
    let what = format!("User {user} cannot {verb} resource {resource} in API group {quoted} {place}");
    ApiError::Forbidden {
        resource: Some(GroupResource::new(group, plural)),
        name: name.to_owned(),
        why: with_reason(&what, why),
    }
}

/// The error for a user who is not allowed to read a path that is no resource.
pub fn forbidden_path(user: &str, method: &Method, path: &str, why: &str) -> ApiError {
    let method = method.as_str().to_lowercase();
    let what = format!("User {} cannot {method} path {}", go::quote(user), go::quote(path));
    ApiError::Forbidden { resource: None, name: String::new(), why: with_reason(&what, why) }
}

/// Escapes text of the client, so that it is not taken for HTML.
fn with_reason(what: &str, why: &str) -> String {
    let what = what.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    if why.is_empty() { what } else { format!("{what}: {why}") }
}
