//! Errors as clients see them: HTTP code, reason, and the words of a `Status` object.
//!
//! [`ApiError`] is the only error that leaves the server. Its variants are the reasons Kubernetes knows, its
//! constructors the sentences Kubernetes says; `Display` is `status.message`. Programs match on the reason, people
//! and test suites on the words, so both are kept to the letter.

mod cause;
pub mod go;

#[cfg(test)]
mod tests;

use std::fmt;

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Map, Value, json};

pub(crate) use cause::shortened;
pub use cause::{Cause, joined};

use crate::bounds::{Exceeded, MAX_BYTES, MAX_DEPTH, MAX_VALUES};
use crate::resource::Resource;

/// Bytes of the message of a `Status`; more than all causes of one object have. Some messages show what the client sent,
/// which may be megabytes.
const MESSAGE: usize = 128 << 10;

/// A resource (or a kind) and its group, as messages name it: `things.example.com`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct GroupResource {
    /// Empty for the core group.
    pub group: String,
    /// The plural, or the kind where upstream's message has the kind.
    pub resource: String,
}

impl GroupResource {
    /// By its names.
    pub fn new(group: &str, resource: &str) -> Self {
        Self { group: group.to_owned(), resource: resource.to_owned() }
    }

    /// The plural of a resource.
    pub fn of(resource: &Resource) -> Self {
        Self::new(&resource.group, &resource.plural)
    }

    /// The kind of a resource, for the few messages that name it.
    pub fn kind_of(resource: &Resource) -> Self {
        // Events are of the core group, whichever group they are asked for in.
        let group = if resource.group == "events.k8s.io" { "" } else { &resource.group };
        Self::new(group, &resource.kind)
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)?;
        if self.group.is_empty() { Ok(()) } else { write!(f, ".{}", self.group) }
    }
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ApiError {
    /// 404: there is no such object.
    #[error("{resource} {} not found", go::quote(name))]
    NotFound {
        /// Of the object.
        resource: GroupResource,
        /// Of the object.
        name: String,
    },
    /// 404: no such resource or path below the API; a `Status`.
    #[error("the server could not find the requested resource")]
    UnknownResource,
    /// 404: nothing is served there at all; plain text.
    #[error("404 page not found")]
    PageNotFound,
    /// 409: the name is taken.
    #[error("{resource} {} already exists", go::quote(name))]
    AlreadyExists {
        /// Of the object.
        resource: GroupResource,
        /// Of the object.
        name: String,
    },
    /// 409: the name is taken by an object that is being deleted.
    #[error("object is being deleted: {resource} {} already exists", go::quote(name))]
    Deleting {
        /// Of the object.
        resource: GroupResource,
        /// Of the object.
        name: String,
    },
    /// 409: every generated name was taken.
    #[error(
        "{resource} {} already exists, the server was not able to generate a unique name for the object",
        go::quote(name)
    )]
    GenerateName {
        /// Of the object.
        resource: GroupResource,
        /// The last name tried.
        name: String,
    },
    /// 409: the object is not what the request takes it for.
    #[error("Operation cannot be fulfilled on {resource} {}: {why}", go::quote(name))]
    Conflict {
        /// The resource; for preconditions of a delete the kind.
        resource: GroupResource,
        /// Of the object.
        name: String,
        /// One of upstream's sentences; see the constructors.
        why: String,
    },
    /// 409: other managers own the fields.
    #[error("{message}")]
    ApplyConflict {
        /// All conflicts in one text.
        message: String,
        /// One `FieldManagerConflict` per field.
        causes: Vec<Cause>,
    },
    /// 422: the object, or the options of the request, break a rule.
    #[error("{kind} {} is invalid{}", go::quote(name), listed(causes))]
    Invalid {
        /// The kind and its group.
        kind: GroupResource,
        /// Of the object; empty for options.
        name: String,
        /// The errors of the fields.
        causes: Vec<Cause>,
    },
    /// 422: the operations of a JSON patch fail on the object.
    #[error("the server rejected our request due to an error in our request")]
    PatchFailed,
    /// 400.
    #[error("{0}")]
    BadRequest(String),
    /// 401.
    #[error("Unauthorized")]
    Unauthorized,
    /// 403.
    #[error("{}", forbidden_text(resource.as_ref(), name, why))]
    Forbidden {
        /// The resource; `None` for paths that are no resources.
        resource: Option<GroupResource>,
        /// Of the object; empty for collections.
        name: String,
        /// The reason of the refusal.
        why: String,
    },
    /// 405, from a path that exists and a method it does not have.
    #[error("the server does not allow this method on the requested resource")]
    MethodNotAllowed,
    /// 405, from a resource that lacks the verb.
    #[error("{verb} is not supported on resources of kind {}", go::quote(&resource.to_string()))]
    VerbNotSupported {
        /// The resource.
        resource: GroupResource,
        /// As in `delete`.
        verb: String,
    },
    /// 406.
    #[error("{message}")]
    NotAcceptable {
        /// The media types that are served.
        message: String,
        /// True if `details` is an empty object, as where the router refuses, or absent.
        routed: bool,
    },
    /// 415.
    #[error("{message}")]
    UnsupportedMediaType {
        /// The media types that are accepted.
        message: String,
        /// True if `details` is an empty object, as where the router refuses, or absent.
        routed: bool,
    },
    /// 410: history that was asked for is compacted.
    #[error("{message}")]
    Expired {
        /// One of upstream's sentences; see the constructors.
        message: String,
        /// A token that continues the list at the latest revision.
        continue_token: Option<String>,
    },
    /// 429.
    #[error("{message}")]
    TooManyRequests {
        /// Why.
        message: String,
        /// When to come back.
        retry_after_seconds: u32,
    },
    /// 413.
    #[error("Request entity too large: {0}")]
    RequestEntityTooLarge(String),
    /// 504: the operation may still complete.
    #[error("Timeout: {message}")]
    Timeout {
        /// The operation that timed out.
        message: String,
        /// When to come back.
        retry_after_seconds: u32,
        /// Details for programs.
        causes: Vec<Cause>,
    },
    /// 500.
    #[error("Internal error occurred: {0}")]
    Internal(String),
    /// 500 without a reason: what upstream says where it passes an error on unclassified.
    #[error("{0}")]
    Unclassified(String),
    /// 503.
    #[error("{0}")]
    ServiceUnavailable(String),
    /// 501: Kubernetes does this, this server does not.
    #[error("{0}")]
    NotImplemented(String),
}

fn listed(causes: &[Cause]) -> String {
    if causes.is_empty() { String::new() } else { format!(": {}", joined(causes)) }
}

impl From<Exceeded> for ApiError {
    fn from(exceeded: Exceeded) -> Self {
        match exceeded {
            Exceeded::Bytes => Self::too_large_body(MAX_BYTES),
            Exceeded::Values => Self::RequestEntityTooLarge(format!(
                "The allowed maximum of values in an object is {MAX_VALUES}"
            )),
            Exceeded::Depth => {
                Self::RequestEntityTooLarge(format!("The allowed maximum depth of an object is {MAX_DEPTH}"))
            }
        }
    }
}

fn forbidden_text(resource: Option<&GroupResource>, name: &str, why: &str) -> String {
    match resource {
        None => format!("forbidden: {why}"),
        Some(resource) if name.is_empty() => format!("{resource} is forbidden: {why}"),
        Some(resource) => format!("{resource} {} is forbidden: {why}", go::quote(name)),
    }
}

/// The sentences that more than one place says.
impl ApiError {
    /// There is no such object.
    pub fn not_found(resource: &Resource, name: &str) -> Self {
        Self::NotFound { resource: GroupResource::of(resource), name: name.to_owned() }
    }

    /// The name is taken.
    pub fn already_exists(resource: &Resource, name: &str) -> Self {
        Self::AlreadyExists { resource: GroupResource::of(resource), name: name.to_owned() }
    }

    /// The object has changed since the client read it.
    pub fn modified(resource: &Resource, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::Conflict { resource: GroupResource::of(resource), name: name.to_owned(), why: why.to_owned() }
    }

    /// Something was applied to an object that is not there.
    pub fn uid_of_apply(resource: &Resource, name: &str, wanted: &str) -> Self {
        let why = format!(
            "uid mismatch: the provided object specified uid {wanted}, and no existing object was found"
        );
        Self::Conflict { resource: GroupResource::of(resource), name: name.to_owned(), why }
    }

    /// A delete was meant for an object with another UID.
    pub fn uid_precondition(resource: &Resource, name: &str, wanted: &str, found: &str) -> Self {
        let why = format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({found}). \
             The object might have been deleted and then recreated"
        );
        Self::Conflict { resource: GroupResource::kind_of(resource), name: name.to_owned(), why }
    }

    /// A delete was meant for another namespace, or another state of it; namespaces say so in their own words.
    pub fn own_precondition(resource: &Resource, name: &str, what: &str, wanted: &str, found: &str) -> Self {
        let why =
            format!("Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}");
        Self::Conflict { resource: GroupResource::of(resource), name: name.to_owned(), why }
    }

    /// A delete was meant for an older state of the object.
    pub fn version_precondition(resource: &Resource, name: &str, wanted: &str, found: &str) -> Self {
        let why = format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record \
             ({found}). The object might have been modified"
        );
        Self::Conflict { resource: GroupResource::kind_of(resource), name: name.to_owned(), why }
    }

    /// An update names another UID than the object has. `key` is where the object is stored, which upstream shows:
    /// `/registry/configmaps/default/a`.
    pub fn uid_of_update(resource: &Resource, name: &str, key: &str, wanted: &str, found: &str) -> Self {
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: \
             Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
        );
        Self::Conflict { resource: GroupResource::of(resource), name: name.to_owned(), why }
    }

    /// An object breaks rules, of which the first hundred are told.
    pub fn invalid<I>(resource: &Resource, name: &str, causes: I) -> Self
    where
        I: IntoIterator<Item = Cause, IntoIter: ExactSizeIterator>,
    {
        let causes = Cause::bounded(causes);
        Self::Invalid { kind: GroupResource::kind_of(resource), name: name.to_owned(), causes }
    }

    /// The options of a request break rules; `kind` is one of `ListOptions`, `CreateOptions` and so on.
    pub fn invalid_options(kind: &str, causes: Vec<Cause>) -> Self {
        let causes = Cause::bounded(causes);
        Self::Invalid { kind: GroupResource::new("meta.k8s.io", kind), name: String::new(), causes }
    }

    /// A watch starts before the oldest event that is kept.
    pub fn too_old_watch(wanted: u64, oldest: u64) -> Self {
        Self::expired(format!("too old resource version: {wanted} ({oldest})"))
    }

    /// A list is asked for at a revision that is compacted.
    pub fn too_old_list() -> Self {
        Self::expired("The resourceVersion for the provided list is too old.".to_owned())
    }

    /// A list cannot be continued where it began; `restart` is a token that continues it now.
    pub fn continue_expired(restart: Option<String>) -> Self {
        let mut message =
            "The provided continue parameter is too old to display a consistent list result. You can \
                           start a new list without the continue parameter"
                .to_owned();
        message.push_str(if restart.is_some() {
            ", or use the continue token in this response to retrieve the remainder of the results. Continuing with \
             the provided token results in an inconsistent list - objects that were created, modified, or deleted \
             between the time the first chunk was returned and now may show up in the list."
        } else {
            "."
        });
        Self::Expired { message, continue_token: restart }
    }

    fn expired(message: String) -> Self {
        Self::Expired { message, continue_token: None }
    }

    /// A revision was asked for that does not exist yet; `again` asks the client to come back.
    pub fn too_large_revision(wanted: u64, current: u64, again: bool) -> Self {
        Self::Timeout {
            message: format!("Too large resource version: {wanted}, current: {current}"),
            retry_after_seconds: u32::from(again),
            causes: vec![Cause::new("ResourceVersionTooLarge", "Too large resource version", "")],
        }
    }

    /// A budget is used up for now.
    pub fn busy() -> Self {
        let message = "Too many requests, please try again later.".to_owned();
        Self::TooManyRequests { message, retry_after_seconds: 1 }
    }

    /// The time that the client gave was over.
    pub fn out_of_time() -> Self {
        Self::Timeout {
            message: "request did not complete within the allotted timeout".to_owned(),
            retry_after_seconds: 0,
            causes: Vec::new(),
        }
    }

    /// The body has more bytes than are read.
    pub fn too_large_body(limit: usize) -> Self {
        Self::RequestEntityTooLarge(format!("limit is {limit}"))
    }
}

/// The response to a request that failed: code, headers and body.
impl ApiError {
    /// The HTTP code.
    pub fn code(&self) -> StatusCode {
        match self {
            Self::NotFound { .. } | Self::UnknownResource | Self::PageNotFound => StatusCode::NOT_FOUND,
            Self::AlreadyExists { .. }
            | Self::Deleting { .. }
            | Self::GenerateName { .. }
            | Self::Conflict { .. }
            | Self::ApplyConflict { .. } => StatusCode::CONFLICT,
            Self::Invalid { .. } | Self::PatchFailed => StatusCode::UNPROCESSABLE_ENTITY,
            Self::BadRequest(_) => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden { .. } => StatusCode::FORBIDDEN,
            Self::MethodNotAllowed | Self::VerbNotSupported { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::NotAcceptable { .. } => StatusCode::NOT_ACCEPTABLE,
            Self::UnsupportedMediaType { .. } => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Expired { .. } => StatusCode::GONE,
            Self::TooManyRequests { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::RequestEntityTooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Timeout { .. } => StatusCode::GATEWAY_TIMEOUT,
            Self::Internal(_) | Self::Unclassified(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::ServiceUnavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::NotImplemented(_) => StatusCode::NOT_IMPLEMENTED,
        }
    }

    /// The word for programs; empty for [`ApiError::Unclassified`].
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotFound { .. } | Self::UnknownResource | Self::PageNotFound => "NotFound",
            Self::AlreadyExists { .. } | Self::Deleting { .. } | Self::GenerateName { .. } => "AlreadyExists",
            Self::Conflict { .. } | Self::ApplyConflict { .. } => "Conflict",
            Self::Invalid { .. } | Self::PatchFailed => "Invalid",
            Self::BadRequest(_) => "BadRequest",
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden { .. } => "Forbidden",
            Self::MethodNotAllowed | Self::VerbNotSupported { .. } => "MethodNotAllowed",
            Self::NotAcceptable { .. } => "NotAcceptable",
            Self::UnsupportedMediaType { .. } => "UnsupportedMediaType",
            Self::Expired { .. } => "Expired",
            Self::TooManyRequests { .. } => "TooManyRequests",
            Self::RequestEntityTooLarge(_) => "RequestEntityTooLarge",
            Self::Timeout { .. } => "Timeout",
            Self::Internal(_) => "InternalError",
            Self::Unclassified(_) => "",
            Self::ServiceUnavailable(_) => "ServiceUnavailable",
            Self::NotImplemented(_) => "NotImplemented",
        }
    }

    /// The value of the `Retry-After` header, in seconds.
    pub fn retry_after(&self) -> Option<u32> {
        match self {
            Self::TooManyRequests { retry_after_seconds, .. } | Self::Timeout { retry_after_seconds, .. } => {
                (*retry_after_seconds > 0).then_some(*retry_after_seconds)
            }
            Self::GenerateName { .. } => Some(1),
            _ => None,
        }
    }

    /// The `Status` object.
    pub fn to_status(&self) -> Value {
        let mut status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"});
        if let Self::Expired { continue_token: Some(token), .. } = self {
            status["metadata"]["continue"] = token.as_str().into();
        }
        status["message"] = shortened(self.to_string(), MESSAGE).into();
        if !self.reason().is_empty() {
            status["reason"] = self.reason().into();
        }
        if let Some(details) = self.details() {
            status["details"] = details;
        }
        status["code"] = self.code().as_u16().into();
        status
    }

    /// Content type and body of the answer, in JSON.
    pub fn body(&self) -> (&'static str, Bytes) {
        match self {
            Self::PageNotFound => ("text/plain; charset=utf-8", Bytes::from(format!("{self}\n"))),
            _ => ("application/json", Bytes::from(format!("{}\n", self.to_status()))),
        }
    }

    fn details(&self) -> Option<Value> {
        let empty = GroupResource::default();
        let (about, name, causes): (&GroupResource, &str, &[Cause]) = match self {
            Self::NotFound { resource, name }
            | Self::AlreadyExists { resource, name }
            | Self::Deleting { resource, name }
            | Self::GenerateName { resource, name }
            | Self::Conflict { resource, name, .. } => (resource, name, &[]),
            Self::Forbidden { resource, name, .. } => (resource.as_ref().unwrap_or(&empty), name, &[]),
            Self::VerbNotSupported { resource, .. } => (resource, "", &[]),
            Self::Invalid { kind, name, causes } => (kind, name, causes),
            Self::ApplyConflict { causes, .. } | Self::Timeout { causes, .. } => (&empty, "", causes),
            Self::Internal(why) => {
                return Some(json!({"causes": [Cause::new("", why, "").to_json()]}));
            }
            Self::UnknownResource
            | Self::PatchFailed
            | Self::MethodNotAllowed
            | Self::TooManyRequests { .. }
            | Self::NotAcceptable { routed: true, .. }
            | Self::UnsupportedMediaType { routed: true, .. } => (&empty, "", &[]),
            Self::PageNotFound
            | Self::BadRequest(_)
            | Self::Unauthorized
            | Self::NotAcceptable { .. }
            | Self::UnsupportedMediaType { .. }
            | Self::Expired { .. }
            | Self::RequestEntityTooLarge(_)
            | Self::Unclassified(_)
            | Self::ServiceUnavailable(_)
            | Self::NotImplemented(_) => return None,
        };
        let mut details = details_of(about, name);
        if !causes.is_empty() {
            details.insert("causes".to_owned(), causes.iter().map(Cause::to_json).collect());
        }
        if let Some(seconds) = self.retry_after() {
            details.insert("retryAfterSeconds".to_owned(), seconds.into());
        }
        Some(details.into())
    }
}

fn details_of(about: &GroupResource, name: &str) -> Map<String, Value> {
    let texts = [("name", name), ("group", about.group.as_str()), ("kind", about.resource.as_str())];
    let texts = texts.into_iter().filter(|(_, text)| !text.is_empty());
    let short = |text: &str| Value::from(shortened(text.to_owned(), cause::TEXT));
    texts.map(|(key, text)| (key.to_owned(), short(text))).collect()
}

/// The answer to a request that was done, and has nothing to show.
pub fn done() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})
}

/// The answer to a delete that removed the object at once.
pub fn deleted(resource: &Resource, name: &str, uid: &str) -> Value {
    let mut details = details_of(&GroupResource::of(resource), name);
    details.insert("uid".to_owned(), uid.into());
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
