//! Who am I, may I, may they: resources that are answered and never stored.

use http::{Response, StatusCode, header};
use serde_json::{Value, json};

use super::documents::json_answer;
use super::{Api, Body, Call};
use crate::builtin;
use crate::door::User;
use crate::rbac::{Object, Resource, Rule};
use crate::request::accept::{self, Endpoint};
use crate::request::body;
use crate::request::path::ResourcePath;
use crate::status::{ApiError, Cause, GroupResource};

const AUTHORIZATION: &str = "authorization.k8s.io";

impl Api {
    /// The answer to a review; `None` where the path is something else.
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
        Some(self.answer(path, kind, call))
    }

    fn answer(&self, path: &ResourcePath, kind: &str, call: &Call<'_>) -> Result<Response<Body>, ApiError> {
        let group = path.version.group.as_str();
        let mut review = question(group, kind, call)?;
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
                check_place(path, &review)?;
                self.access(spec, &subject(spec))
            }
        };
        let mut response = json_answer(&review);
        *response.status_mut() = StatusCode::CREATED;
        Ok(response)
    }

    fn access(&self, spec: &Value, user: &User) -> Value {
        let resource = &spec["resourceAttributes"];
        let text = |of: &'static str| resource[of].as_str().unwrap_or_default();
        let others = &spec["nonResourceAttributes"];
        let (verb, object) = if resource.is_object() {
            let object = Resource {
                group: text("group"),
                plural: text("resource"),
                subresource: text("subresource"),
                name: text("name"),
                namespace: text("namespace"),
            };
            (text("verb"), Object::Resource(object))
        } else {
            (
                others["verb"].as_str().unwrap_or_default(),
                Object::Path(others["path"].as_str().unwrap_or_default()),
            )
        };
        let verdict = self.engine.rbac.authorize(&self.engine.store, user, verb, &object);
        let mut status = json!({"allowed": verdict.allowed});
        if !verdict.reason.is_empty() {
            status["reason"] = verdict.reason.into();
        }
        status
    }

    fn rules(&self, spec: &Value, user: &User) -> Result<Value, ApiError> {
        let namespace = spec["namespace"].as_str().filter(|namespace| !namespace.is_empty());
        let namespace = namespace.ok_or_else(|| ApiError::BadRequest("no namespace on request".into()))?;
        let found = self.engine.rbac.rules(&self.engine.store, user, namespace);
        let mut rules = found.rules;
        if user.is_master() {
            let all = || vec!["*".to_owned()];
            let resources = Rule { verbs: all(), api_groups: all(), resources: all(), ..Rule::default() };
            let urls = Rule { verbs: all(), non_resource_urls: all(), ..Rule::default() };
            // The binding that says so may be gone; the right stays.
            rules.extend(
                [resources, urls].into_iter().filter(|rule| !rules.contains(rule)).collect::<Vec<_>>(),
            );
        }
        let resources = rules.iter().filter(|rule| !rule.resources.is_empty()).map(|rule| {
            let mut shown =
                json!({"verbs": rule.verbs, "apiGroups": rule.api_groups, "resources": rule.resources});
            if !rule.resource_names.is_empty() {
                shown["resourceNames"] = json!(rule.resource_names);
            }
            shown
        });
        let urls = rules
            .iter()
            .filter(|rule| !rule.non_resource_urls.is_empty())
            .map(|rule| json!({"verbs": rule.verbs, "nonResourceURLs": rule.non_resource_urls}));
        let mut status = json!({
            "resourceRules": resources.collect::<Vec<_>>(),
            "nonResourceRules": urls.collect::<Vec<_>>(),
            "incomplete": false,
        });
        if !found.errors.is_empty() {
            status["evaluationError"] = found.errors.join(", ").into();
        }
        Ok(status)
    }
}

/// The review that a request brings, without an answer that it may bring as well.
fn question(group: &str, kind: &str, call: &Call<'_>) -> Result<Value, ApiError> {
    let format = accept::body_format(call.header(header::CONTENT_TYPE), Endpoint::BuiltIn)?;
    let decoded = body::decode_kind(call.body, format, (group, kind), super::read_yaml);
    let mut review = decoded.map_err(|error| error.of_kind(kind, call.body))?.value;
    let resource = builtin::virtual_resources();
    if let Some(resource) = resource.iter().find(|known| known.group == group && known.kind == kind) {
        body::check_kind(&mut review, resource, "v1", call.body)?;
    }
    let decoded = builtin::decode(group, kind, review).map_err(|error| {
        ApiError::BadRequest(format!("{kind} in version \"v1\" cannot be handled as a {kind}: {error}"))
    })?;
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

/// A local review is about its own namespace.
fn check_place(path: &ResourcePath, review: &Value) -> Result<(), ApiError> {
    let Some(namespace) = path.namespace.as_deref() else { return Ok(()) };
    if review["spec"]["resourceAttributes"]["namespace"].as_str().unwrap_or_default() == namespace {
        return Ok(());
    }
    let text = "spec.resourceAttributes.namespace must match namespace";
    Err(ApiError::BadRequest(format!("{text}: {namespace}")))
}
