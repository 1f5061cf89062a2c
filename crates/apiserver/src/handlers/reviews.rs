//! Reviews: the resources of `authentication.k8s.io` and `authorization.k8s.io`, which are answered and never stored.

use std::io;
use std::ops::ControlFlow;

use http::{Response, StatusCode, header};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Api, Body, Call, response};
use crate::authn::User;
use crate::builtin;
use crate::rbac::{Attributes, ResourceAttributes, Rule};
use crate::request::accept::{self, Endpoint};
use crate::request::body;
use crate::request::path::ResourcePath;
use crate::request::write::WriteKind;
use crate::resource::Resource as ReviewResource;
use crate::status::{ApiError, Cause, GroupResource, shortened};
use crate::storage::report_body;

const AUTHORIZATION: &str = "authorization.k8s.io";
/// Bytes of rules in one response. A cluster with hundreds of kinds takes a tenth of it.
const MAX_RULES_BYTES: usize = 256 << 10;
/// Bytes of a reason: names of roles and bindings are not bounded by themselves.
const MAX_REASON_BYTES: usize = 32 << 10;

impl Api {
    /// The response to a review; `None` where the path is no review.
    pub(super) fn review(
        &self,
        path: &ResourcePath,
        call: &Call<'_>,
    ) -> Option<Result<Response<Body>, ApiError>> {
        let group = path.version.group.as_str();
        let kind = match (group, &*path.resource) {
            ("authentication.k8s.io", "selfsubjectreviews") => "SelfSubjectReview",
            (AUTHORIZATION, "selfsubjectaccessreviews") => "SelfSubjectAccessReview",
            (AUTHORIZATION, "selfsubjectrulesreviews") => "SelfSubjectRulesReview",
            (AUTHORIZATION, "subjectaccessreviews") => "SubjectAccessReview",
            (AUTHORIZATION, "localsubjectaccessreviews") => "LocalSubjectAccessReview",
            _ => return None,
        };
        let is_local = kind == "LocalSubjectAccessReview";
        if path.version.version != "v1" || path.namespace.is_some() != is_local {
            return Some(Err(ApiError::UnknownResource));
        }
        if call.method != http::Method::POST || path.name.is_some() {
            return Some(Err(ApiError::MethodNotAllowed));
        }
        Some(self.answer_review(path, kind, call))
    }

    fn answer_review(
        &self,
        path: &ResourcePath,
        kind: &str,
        call: &Call<'_>,
    ) -> Result<Response<Body>, ApiError> {
        let group = path.version.group.as_str();
        let resources = builtin::virtual_resources();
        let resource = resources.iter().find(|known| known.group == group && known.kind == kind);
        let resource = resource.ok_or(ApiError::UnknownResource)?;
        accept::negotiate_untabled(call.header(header::ACCEPT), Endpoint::BuiltIn)?;
        let mut review = decode_review(resource, call)?;
        review["status"] = match kind {
            "SelfSubjectReview" => json!({"userInfo": user_info(call.user)}),
            "SelfSubjectAccessReview" => {
                check_attributes(kind, &review["spec"], Vec::new())?;
                self.access(&review["spec"], call.user)
            }
            "SelfSubjectRulesReview" => self.rules(&review["spec"], call.user)?,
            _ => {
                let spec = &review["spec"];
                check_attributes(kind, spec, check_subject(spec))?;
                check_namespace(path, &review)?;
                self.access(spec, &subject(spec))
            }
        };
        response::untabled(resource, call, StatusCode::CREATED, &review)
    }

    fn access(&self, spec: &Value, user: &User) -> Value {
        let resource = &spec["resourceAttributes"];
        let text = |of: &'static str| resource[of].as_str().unwrap_or_default();
        let others = &spec["nonResourceAttributes"];
        let (verb, object) = if resource.is_object() {
            let object = ResourceAttributes {
                group: text("group"),
                plural: text("resource"),
                subresource: text("subresource"),
                name: text("name"),
                namespace: text("namespace"),
            };
            (text("verb"), Attributes::Resource(object))
        } else {
            (
                others["verb"].as_str().unwrap_or_default(),
                Attributes::Path(others["path"].as_str().unwrap_or_default()),
            )
        };
        let verdict = self.storage.rbac.authorize(&self.storage.store, user, verb, &object);
        let mut status = json!({"allowed": verdict.allowed});
        if !verdict.reason.is_empty() {
            status["reason"] = shortened(verdict.reason, MAX_REASON_BYTES).into();
        }
        status
    }

    fn rules(&self, spec: &Value, user: &User) -> Result<Value, ApiError> {
        let namespace = spec["namespace"].as_str().filter(|namespace| !namespace.is_empty());
        let namespace = namespace.ok_or_else(|| ApiError::BadRequest("no namespace on request".into()))?;
        let found = self.storage.rbac.rules(&self.storage.store, user, namespace);
        let mut shown = ReviewedRules::new();
        let mut everything = Vec::new();
        if user.is_master() {
            let all = || vec!["*".to_owned()];
            let resources = Rule { verbs: all(), api_groups: all(), resources: all(), ..Rule::default() };
            let urls = Rule { verbs: all(), non_resource_urls: all(), ..Rule::default() };
            // Administrators have these rights even where the binding has been deleted.
            everything
                .extend([resources, urls].into_iter().filter(|rule| found.iter().all(|known| known != rule)));
        }
        let mut errors = found.errors.clone();
        if found.iter().chain(&everything).try_for_each(|rule| shown.add(rule)).is_break() {
            errors.push(format!("the rules take more than {MAX_RULES_BYTES} bytes: the rest is left out"));
        }
        let mut status = json!({
            "resourceRules": shown.resources,
            "nonResourceRules": shown.urls,
            "incomplete": shown.left == 0,
        });
        if !errors.is_empty() {
            status["evaluationError"] = errors.join(", ").into();
        }
        Ok(status)
    }
}

/// The rules of a review, up to a bound: a request of a few bytes can be about megabytes of roles, and a response is in
/// memory until it is read.
struct ReviewedRules {
    resources: Vec<Value>,
    urls: Vec<Value>,
    /// Bytes that are left; zero once a rule did not fit.
    left: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceRule<'a> {
    verbs: &'a [String],
    api_groups: &'a [String],
    resources: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    resource_names: &'a [String],
}

#[derive(Serialize)]
struct UrlRule<'a> {
    verbs: &'a [String],
    #[serde(rename = "nonResourceURLs")]
    urls: &'a [String],
}

impl ReviewedRules {
    fn new() -> Self {
        Self { resources: Vec::new(), urls: Vec::new(), left: MAX_RULES_BYTES }
    }

    /// Adds a rule, if there is room for it.
    fn add(&mut self, rule: &Rule) -> ControlFlow<()> {
        let Rule { verbs, api_groups, resources, resource_names, non_resource_urls } = rule;
        if !resources.is_empty() {
            let shown = self.fit(&ResourceRule { verbs, api_groups, resources, resource_names })?;
            self.resources.push(shown);
        }
        if !non_resource_urls.is_empty() {
            let shown = self.fit(&UrlRule { verbs, urls: non_resource_urls })?;
            self.urls.push(shown);
        }
        ControlFlow::Continue(())
    }

    /// A rule as JSON, if it fits; its length is computed first.
    fn fit(&mut self, rule: &impl Serialize) -> ControlFlow<(), Value> {
        let mut measure = Measure(self.left);
        if serde_json::to_writer(&mut measure, rule).is_err() {
            self.left = 0;
            return ControlFlow::Break(());
        }
        self.left = measure.0;
        ControlFlow::Continue(serde_json::to_value(rule).expect("lists of texts are JSON"))
    }
}

/// A writer that counts down the bytes that are left.
struct Measure(usize);

impl io::Write for Measure {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Zero stands for full.
        self.0 = self.0.checked_sub(bytes.len()).filter(|left| *left > 0).ok_or(io::ErrorKind::WriteZero)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Decodes the review of a request, without its status.
fn decode_review(resource: &ReviewResource, call: &Call<'_>) -> Result<Value, ApiError> {
    let (group, kind) = (resource.group.as_str(), resource.kind.as_str());
    let format = accept::body_format(call.header(header::CONTENT_TYPE), Endpoint::BuiltIn)?;
    // A review is created, so the options of writes apply, though nothing is stored.
    let mut options = call.write_options(WriteKind::Create)?;
    let decoded = body::decode_kind(call.body, format, (group, kind));
    let mut read = decoded.map_err(|error| error.of_kind(kind, call.body))?;
    body::check_kind(&mut read.value, resource, "v1", call.body)?;
    let decoded = builtin::decode(group, kind, read.value).map_err(|error| {
        ApiError::BadRequest(format!("{kind} in version \"v1\" cannot be handled as a {kind}: {error}"))
    })?;
    options.repeated = read.repeated;
    report_body(resource, &options, &decoded.unknown_fields)?;
    Ok(decoded.object)
}

fn user_info(user: &User) -> Value {
    let mut info = json!({"username": user.name, "groups": user.groups});
    if let Some(uid) = &user.uid {
        info["uid"] = uid.as_str().into();
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}

fn subject(spec: &Value) -> User {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    User {
        name: text(&spec["user"]).unwrap_or_default(),
        groups: spec["groups"].as_array().into_iter().flatten().filter_map(text).collect(),
        uid: text(&spec["uid"]),
        extra: std::collections::BTreeMap::new(),
    }
}

fn check_subject(spec: &Value) -> Vec<Cause> {
    let has_user = spec["user"].as_str().is_some_and(|user| !user.is_empty());
    let has_groups = spec["groups"].as_array().is_some_and(|groups| !groups.is_empty());
    let detail = "at least one of user or group must be specified";
    let wrong = (!has_user && !has_groups).then(|| Cause::invalid("spec.user", &json!(""), detail));
    wrong.into_iter().collect()
}

fn check_attributes(kind: &str, spec: &Value, mut causes: Vec<Cause>) -> Result<(), ApiError> {
    let is_set = |name: &str| spec[name].is_object();
    let detail = match (is_set("resourceAttributes"), is_set("nonResourceAttributes")) {
        (true, true) => {
            Some(("nonResourceAttributes", "cannot be specified in combination with resourceAttributes"))
        }
        (false, false) => Some((
            "resourceAttributes",
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
        _ => None,
    };
    if let Some((field, detail)) = detail {
        causes.insert(0, Cause::invalid(&format!("spec.{field}"), &spec[field], detail));
    }
    if causes.is_empty() {
        return Ok(());
    }
    Err(ApiError::Invalid { kind: GroupResource::new(AUTHORIZATION, kind), name: String::new(), causes })
}

/// Checks that a local review is about the namespace of its path.
fn check_namespace(path: &ResourcePath, review: &Value) -> Result<(), ApiError> {
    let Some(namespace) = path.namespace.as_deref() else { return Ok(()) };
    if review["spec"]["resourceAttributes"]["namespace"].as_str().unwrap_or_default() == namespace {
        return Ok(());
    }
    let text = "spec.resourceAttributes.namespace must match namespace";
    Err(ApiError::BadRequest(format!("{text}: {namespace}")))
}
