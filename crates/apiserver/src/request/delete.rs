//! The options of deletes, from the body if there is one, else from the query.

use serde_json::{Map, Value};

use super::{query::Query, write::wrong_dry_run};
use crate::json::kind_of;
use crate::object::delete::Propagation;
use crate::status::{ApiError, Cause, go};

/// The options of a delete.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DeleteOptions {
    /// The grace period of the object.
    pub grace_period_seconds: Option<i64>,
    /// The propagation policy; `None` leaves it to the object's finalizers and the resource's default.
    pub propagation: Option<Propagation>,
    /// The older form of it. `Some(false)` makes the answer 202 while the object is still there.
    pub orphan_dependents: Option<bool>,
    /// Delete only the object with this UID.
    pub uid: Option<String>,
    /// Delete only this state of the object.
    pub resource_version: Option<String>,
    /// Do everything but delete.
    pub dry_run: bool,
}

/// As read, before the rules are applied.
#[derive(Default)]
struct Raw {
    grace_period_seconds: Option<i64>,
    orphan_dependents: Option<bool>,
    propagation: Option<String>,
    dry_run: Vec<String>,
    uid: Option<String>,
    resource_version: Option<String>,
}

impl DeleteOptions {
    /// The options in the query.
    pub fn from_query(query: &Query) -> Result<Self, ApiError> {
        Raw {
            grace_period_seconds: query.integer("gracePeriodSeconds")?,
            orphan_dependents: query.flag("orphanDependents"),
            propagation: query.get("propagationPolicy").map(str::to_owned),
            dry_run: query.all("dryRun").map(str::to_owned).collect(),
            uid: query.text("uid").map(str::to_owned),
            resource_version: query.text("resourceVersion").map(str::to_owned),
        }
        .check()
    }

    /// The options in a body, which may call itself `DeleteOptions` of any group.
    pub fn from_body(body: &Value) -> Result<Self, ApiError> {
        let empty = Map::new();
        let fields = match body {
            Value::Object(fields) => fields,
            Value::Null => &empty,
            other => {
                let why = format!("cannot unmarshal {} {}", kind_of(other), super::body::TYPE_META);
                let text = format!("couldn't get version/kind; json parse error: json: {why}");
                return Err(ApiError::BadRequest(text));
            }
        };
        let kind = Reader { fields, path: "", owner: "" }.text("kind", "string").map_err(|error| {
            ApiError::BadRequest(format!("couldn't get version/kind; json parse error: {error}"))
        })?;
        let kind = kind.unwrap_or_default();
        if !matches!(kind.as_str(), "" | "DeleteOptions") {
            let version = fields.get("apiVersion").and_then(Value::as_str).unwrap_or("v1");
            let (kind, version) = (go::quote(&kind), go::quote(version));
            let text = format!(
                "no kind {kind} is registered for version {version} in scheme \"pkg/runtime/scheme.go:111\""
            );
            return Err(ApiError::BadRequest(text));
        }
        let top = Reader { fields, path: "", owner: "DeleteOptions" };
        let conditions = match fields.get("preconditions") {
            None | Some(Value::Null) => &empty,
            Some(Value::Object(conditions)) => conditions,
            Some(other) => return Err(top.mismatch(other, "preconditions", "v1.Preconditions")),
        };
        let inner = Reader { fields: conditions, path: "preconditions.", owner: "Preconditions" };
        Raw {
            grace_period_seconds: top.integer("gracePeriodSeconds")?,
            orphan_dependents: top.flag("orphanDependents")?,
            propagation: top.text("propagationPolicy", "v1.DeletionPropagation")?,
            dry_run: top.texts("dryRun")?,
            uid: inner.text("uid", "types.UID")?,
            resource_version: inner.text("resourceVersion", "string")?,
        }
        .check()
    }
}

impl Raw {
    fn check(self) -> Result<DeleteOptions, ApiError> {
        let field = "propagationPolicy";
        let mut causes = Vec::new();
        let given = self.propagation.as_deref().map(Value::from);
        if let (Some(given), Some(_)) = (&given, self.orphan_dependents) {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            causes.push(Cause::invalid(field, given, detail));
        }
        let propagation = match self.propagation.as_deref() {
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Background") => Some(Propagation::Background),
            Some("Orphan") => Some(Propagation::Orphan),
            _ => None,
        };
        if let (Some(given), None) = (&given, propagation) {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            causes.push(Cause::not_supported(field, given, &supported));
        }
        let dry_run: Vec<_> = self.dry_run.iter().map(String::as_str).collect();
        causes.extend(wrong_dry_run(&dry_run));
        if !causes.is_empty() {
            return Err(ApiError::invalid_options("DeleteOptions", causes));
        }
        Ok(DeleteOptions {
            grace_period_seconds: self.grace_period_seconds,
            propagation,
            orphan_dependents: self.orphan_dependents,
            uid: self.uid,
            resource_version: self.resource_version,
            dry_run: !self.dry_run.is_empty(),
        })
    }
}

/// Reads members of an object, and says about those of the wrong type what Go says.
struct Reader<'a> {
    fields: &'a Map<String, Value>,
    path: &'static str,
    owner: &'static str,
}

impl<'a> Reader<'a> {
    fn get(&self, key: &str) -> Option<&'a Value> {
        self.fields.get(key).filter(|value| !value.is_null())
    }

    fn text(&self, key: &str, go_type: &str) -> Result<Option<String>, ApiError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let text = value.as_str().ok_or_else(|| self.mismatch(value, key, go_type))?;
        Ok(Some(text.to_owned()))
    }

    fn flag(&self, key: &str) -> Result<Option<bool>, ApiError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.mismatch(value, key, "bool"))
    }

    fn integer(&self, key: &str) -> Result<Option<i64>, ApiError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_i64().map(Some).ok_or_else(|| self.mismatch(value, key, "int64"))
    }

    fn texts(&self, key: &str) -> Result<Vec<String>, ApiError> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let items = value.as_array().ok_or_else(|| self.mismatch(value, key, "[]string"))?;
        let texts = items.iter().map(|item| match item {
            Value::String(text) => Ok(text.clone()),
            Value::Null => Ok(String::new()),
            other => Err(self.mismatch(other, key, "string")),
        });
        texts.collect()
    }

    fn mismatch(&self, found: &Value, key: &str, go_type: &str) -> ApiError {
        let mut what = kind_of(found).to_owned();
        if let Value::Number(number) = found
            && go_type == "int64"
        {
            what = format!("{what} {number}");
        }
        let Self { path, owner, .. } = self;
        let text = format!(
            "json: cannot unmarshal {what} into Go struct field {owner}.{path}{key} of type {go_type}"
        );
        ApiError::BadRequest(text)
    }
}
