//! Admission: known fields, defaults, valid metadata, schema and rules.

use std::collections::HashSet;

use capt_schema::{FieldError, FieldErrorKind, FieldPath, metadata};
use serde_json::{Map, Value};

use super::Target;
use crate::bounds;
use crate::builtin::decode::{
    check_metadata, convert, decode, decode_converted, drop_malformed_metadata, drop_unknown_metadata,
};
use crate::builtin::{events, rules};
use crate::managed_fields::text;
use crate::object::create::drop_empty;
use crate::object::{Meta, metadata_mut};
use crate::request::body;
use crate::request::write::{FieldValidation, WriteOptions};
use crate::resource::Resource;
use crate::status::{ApiError, Cause, GroupResource, go};

/// Replicas are 32 bits wide.
const MOST_REPLICAS: i64 = i32::MAX as i64;

/// The kind of request that an object results from; errors are worded accordingly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The body of a create or an update.
    Body,
    /// A merge patch; the text is shown in errors.
    Patch(String),
    /// A strategic merge patch; the text is shown in errors.
    StrategicPatch(String),
    /// A JSON patch; the text is shown in errors.
    JsonPatch(String),
    /// A server-side apply; the text names the applied object.
    Apply(String),
}

/// An object with known fields only, and with defaults.
#[derive(Clone, Debug)]
pub struct Admitted {
    /// The object, without empty optional fields.
    pub object: Value,
    /// The dropped empty map that an immutable object may not have.
    pub emptied: Option<&'static str>,
}

/// Drops unknown fields and fills in defaults. Dropped fields are an error or a warning, as the request asks for.
pub fn admit(
    target: &Target,
    mut object: Value,
    options: &WriteOptions,
    origin: &Origin,
) -> Result<Admitted, ApiError> {
    // Decoding drops empty maps.
    let emptied = emptied_map(target, &object);
    let mut problems = normalize(target, &mut object, origin)?;
    if matches!(origin, Origin::Patch(_) | Origin::StrategicPatch(_)) {
        // A patched object is read with its members in order.
        problems.sort();
    }
    report_fields(&target.served.resource, &target.served.version.name, options, origin, problems)?;
    // The `stringData` of a Secret may have filled it.
    let emptied = emptied.filter(|name| object.get(name).is_none());
    Ok(Admitted { object, emptied })
}

/// Drops unknown fields and fills in defaults; returns a problem for each field that was dropped.
fn normalize(target: &Target, object: &mut Value, origin: &Origin) -> Result<Vec<String>, ApiError> {
    let resource = &target.served.resource;
    if resource.custom {
        let metadata = object.get("metadata").filter(|metadata| metadata.is_object());
        let checked = metadata.map(|metadata| check_metadata(client_metadata(metadata, origin)));
        if let (Some(Err(_)), Origin::Apply(_)) = (&checked, origin) {
            drop_malformed_metadata(metadata_mut(object));
        } else if let Some(Err(error)) = checked {
            return Err(undecodable(target, &error.to_string(), origin));
        }
        for name in ["labels", "annotations"] {
            let texts = object.get_mut("metadata").and_then(|metadata| metadata.get_mut(name));
            let texts = texts.and_then(Value::as_object_mut).into_iter().flatten();
            // Go decodes null in a map of strings as an empty string.
            texts.filter(|(_, value)| value.is_null()).for_each(|(_, value)| *value = "".into());
        }
        normalize_custom(target, object, origin)
    } else {
        let problems = normalize_builtin(target, object, origin)?;
        rules::apply_defaults(&resource.group, &resource.kind, object);
        // An apply has been checked against its type already.
        Ok(if matches!(origin, Origin::Apply(_)) { Vec::new() } else { problems })
    }
}

/// Refuses a body of a built-in kind for its duplicate and unknown fields, or warns of them.
pub fn report_body(
    resource: &Resource,
    options: &WriteOptions,
    unknown_fields: &[String],
) -> Result<(), ApiError> {
    let unknown = unknown_fields.iter().map(|path| body::unknown_field(path)).collect();
    report_fields(resource, &resource.storage_version, options, &Origin::Body, unknown)
}

/// Refuses a write for its duplicate and unknown fields, or warns of them, as its field validation says.
fn report_fields(
    resource: &Resource,
    version: &str,
    options: &WriteOptions,
    origin: &Origin,
    unknown: Vec<String>,
) -> Result<(), ApiError> {
    let of_patch = |problem: String| match origin {
        Origin::JsonPatch(_) => format!("json patch {problem}"),
        Origin::Body | Origin::Patch(_) | Origin::StrategicPatch(_) | Origin::Apply(_) => problem,
    };
    let mut repeated = match options.field_validation {
        FieldValidation::Strict => options.repeated.problems(),
        FieldValidation::Warn => options.repeated.warnings(),
        FieldValidation::Ignore => return Ok(()),
    };
    if !resource.custom && *origin == Origin::Body {
        // An unknown field is not reported as a duplicate one too.
        let unknown: HashSet<_> =
            unknown.iter().filter_map(|problem| problem.strip_prefix("unknown field ")).collect();
        repeated.retain(|problem| {
            !problem.strip_prefix("duplicate field ").is_some_and(|path| unknown.contains(path))
        });
    }
    if let (FieldValidation::Strict, Origin::Apply(_), [first, ..]) =
        (options.field_validation, origin, &*repeated)
    {
        let text = format!("error strict decoding YAML: error converting YAML to JSON: {first}");
        return Err(ApiError::BadRequest(text));
    }
    let problems: Vec<String> = repeated.into_iter().map(of_patch).chain(unknown).collect();
    match options.field_validation {
        FieldValidation::Strict if !problems.is_empty() => Err(match origin {
            Origin::Patch(patch) | Origin::StrategicPatch(patch) | Origin::JsonPatch(patch) => {
                invalid_patch(patch, &format!("strict decoding error: {}", problems.join(", ")))
            }
            Origin::Body | Origin::Apply(_) => body::strict_error(&resource.kind, version, &problems),
        }),
        FieldValidation::Warn => {
            for warning in problems {
                options.warnings.add(warning);
            }
            Ok(())
        }
        FieldValidation::Strict | FieldValidation::Ignore => Ok(()),
    }
}

/// The metadata that a client has sent: after an apply, without the managed fields, which are the server's.
fn client_metadata(metadata: &Value, origin: &Origin) -> Value {
    match (metadata, origin) {
        (Value::Object(members), Origin::Apply(_)) => {
            let members = members.iter().filter(|(name, _)| *name != "managedFields");
            members.map(|(name, value)| (name.clone(), value.clone())).collect::<Map<_, _>>().into()
        }
        _ => metadata.clone(),
    }
}

fn normalize_custom(target: &Target, object: &mut Value, origin: &Origin) -> Result<Vec<String>, ApiError> {
    let of_metadata = object.get_mut("metadata").map(|metadata| {
        let sent = client_metadata(metadata, origin);
        drop_unknown_metadata(metadata, sent)
    });
    let of_metadata = of_metadata.unwrap_or_default();
    let unknown = target.served.schema.prune(object);
    let filled = if matches!(origin, Origin::Apply(_)) {
        target.served.schema.fill(object)
    } else {
        target.served.schema.default(object)
    };
    filled.map_err(bounds::Exceeded::from)?;
    drop_empty(metadata_mut(object));
    let unknown = unknown.iter().map(|field| field.path.to_string());
    Ok(of_metadata.into_iter().chain(unknown).map(|path| body::unknown_field(&path)).collect())
}

/// Reads an object of a built-in kind as Go's types read it.
fn normalize_builtin(target: &Target, object: &mut Value, origin: &Origin) -> Result<Vec<String>, ApiError> {
    let resource = &target.served.resource;
    // An explicitly empty managedFields is not the same as a missing one.
    let resets_managers = object["metadata"]["managedFields"].as_array().is_some_and(Vec::is_empty);
    if let Origin::Apply(_) | Origin::StrategicPatch(_) = origin {
        convert(&resource.group, &resource.kind, object)
            .map_err(|error| undecodable(target, &error.to_string(), origin))?;
    }
    let decoded = match origin {
        Origin::StrategicPatch(_) => decode_converted(&resource.group, &resource.kind, object.take()),
        _ => decode(&resource.group, &resource.kind, object.take()),
    };
    let decoded = decoded.map_err(|error| undecodable(target, &error.to_string(), origin))?;
    *object = decoded.object;
    if resets_managers {
        metadata_mut(object).insert("managedFields".into(), Value::Array(Vec::new()));
    }
    Ok(decoded.unknown_fields.iter().map(|path| body::unknown_field(path)).collect())
}

/// The map that a write of a Secret or a `ConfigMap` sets to an empty one, if kube-apiserver distinguishes that from a
/// missing one where the object is immutable. It does not so for the `data` of a `ConfigMap`.
fn emptied_map(target: &Target, object: &Value) -> Option<&'static str> {
    let name = match &*target.served.store_name {
        "/secrets" => "data",
        "/configmaps" => "binaryData",
        _ => return None,
    };
    object.get(name).and_then(Value::as_object).is_some_and(Map::is_empty).then_some(name)
}

fn invalid_patch(patch: &str, error: &str) -> ApiError {
    let what = format!("Invalid value: {}: {error}", go::quote(patch));
    let causes = vec![Cause::new("FieldValueInvalid", what, "patch")];
    ApiError::Invalid { kind: GroupResource::default(), name: String::new(), causes }
}

/// The error for an object that has a value of the wrong type.
fn undecodable(target: &Target, error: &str, origin: &Origin) -> ApiError {
    let resource = &target.served.resource;
    let (group, kind, version) = (&resource.group, &resource.kind, &target.served.version.name);
    match origin {
        Origin::Body => ApiError::BadRequest(format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: {error}"
        )),
        Origin::Patch(patch) | Origin::StrategicPatch(patch) | Origin::JsonPatch(patch) => {
            invalid_patch(patch, error)
        }
        Origin::Apply(about) => ApiError::Unclassified(format!(
            "failed to convert new object ({about}) to proper version: unable to convert unstructured object to \
             {group}/{version}, Kind={kind}: {error}"
        )),
    }
}

/// Refuses an object that is not valid, by itself or as a change of `old`.
pub fn validate(
    target: &Target,
    object: &Value,
    old: Option<&Value>,
    emptied: Option<&str>,
) -> Result<(), ApiError> {
    let resource = &target.served.resource;
    let mut errors = metadata::validate(object);
    errors.extend(old.and_then(|old| added_finalizers(object, old)));
    errors.extend(old.map(|old| changed_identity(object, old)).unwrap_or_default());
    if resource.custom {
        errors = validate_custom(target, errors, object, old);
    } else {
        let (group, kind) = (resource.group.as_str(), resource.kind.as_str());
        // Some built-in kinds allow other names, such as `system:node`; their rules say so.
        let name_rule = rules::name_rule(group, kind);
        let name = Meta::of(object).name().unwrap_or_default();
        let at = FieldPath::root().field("metadata").field("name");
        errors.retain(|error| error.path.to_string() != "metadata.name" || name.is_empty());
        if !name.is_empty() {
            errors.splice(0..0, rules::complaints(&at, name, name_rule.check(name)));
        }
        let prefix = Meta::of(object).generate_name().unwrap_or_default();
        errors.retain(|error| error.path.to_string() != "metadata.generateName");
        if !prefix.is_empty() {
            let at = FieldPath::root().field("metadata").field("generateName");
            errors.splice(0..0, rules::complaints(&at, prefix, name_rule.check_prefix(prefix)));
        }
        let finalizers: Vec<&str> = Meta::of(object).finalizers().collect();
        errors.extend(rules::finalizers(group, kind, &finalizers));
        // Rules know events in the shape they are stored in.
        let core = |event: &Value| {
            if group == "events.k8s.io" { events::to_core(event.clone()) } else { event.clone() }
        };
        let (object, old) = (&core(object), old.map(core));
        let broken = match &old {
            None => rules::validate_create(group, kind, object),
            Some(old) if target.status => rules::validate_status_update(group, kind, object, old),
            Some(old) => rules::validate_update(group, kind, object, old, emptied),
        };
        if (group, kind) == ("", "Event") && !broken.is_empty() {
            // The metadata of events is validated only after their rules.
            errors.clear();
        }
        errors.extend(broken);
    }
    // The room for definitions is only checked for valid ones.
    if let (Some(room), true, false) = (&target.served.room, errors.is_empty(), target.status) {
        errors.extend(room.check(object, old));
    }
    refuse(target, object, &errors)
}

/// Adds the errors of the schema, the rules and the scale of a custom object.
fn validate_custom(
    target: &Target,
    errors: Vec<FieldError>,
    object: &Value,
    old: Option<&Value>,
) -> Vec<FieldError> {
    let mut errors = target.served.schema.validate_after(errors, object, old);
    errors.extend(invalid_replicas(target, object));
    errors.extend(invalid_selector(target, object));
    if target.status {
        // The status is validated by itself then: paths in messages begin below it.
        for error in &mut errors {
            if let Some(rest) = error.detail.strip_prefix("status.") {
                error.detail = rest.to_owned();
            }
        }
    }
    errors
}

/// Warns of valid values that are likely mistakes.
pub fn warn(target: &Target, object: &Value, old: Option<&Value>, options: &WriteOptions) {
    let resource = &target.served.resource;
    if target.status {
        return;
    }
    let warnings = if resource.custom {
        rules::warnings::of_finalizers(object, old)
    } else {
        rules::warnings::warnings(&resource.group, &resource.kind, object, old)
    };
    for warning in warnings {
        options.warnings.add(warning);
    }
}

/// The replicas of an object must be a number that its scale can show.
fn invalid_replicas(target: &Target, object: &Value) -> Option<FieldError> {
    let scale = target.served.version.scale.as_ref()?;
    let path = if target.status { &scale.status_replicas } else { &scale.spec_replicas };
    let found = path.split('.').skip(1).try_fold(object, |value, name| value.get(name))?;
    let at = FieldPath::root().field(path);
    let Some(number) = found.as_i64() else {
        return Some(rules::invalid(&at, 0, accessor_error(path, found, "int64")));
    };
    let detail = match number {
        ..0 => "should be a non-negative integer",
        0..=MOST_REPLICAS => return None,
        _ => "should be less than or equal to 2147483647",
    };
    Some(rules::invalid(&at, number, detail))
}

/// The selector of a scale is part of the status, and must be a string.
fn invalid_selector(target: &Target, object: &Value) -> Option<FieldError> {
    let scale = target.served.version.scale.as_ref().filter(|_| target.status)?;
    let path = scale.label_selector.as_ref()?;
    let found = path.split('.').skip(1).try_fold(object, |value, name| value.get(name))?;
    let at = FieldPath::root().field(path);
    (!found.is_string()).then(|| rules::invalid(&at, "", accessor_error(path, found, "string")))
}

fn accessor_error(path: &str, found: &Value, expected: &str) -> String {
    let of = match found {
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
        Value::Null => "<nil>",
    };
    format!("{path} accessor error: {} is of the type {of}, expected {expected}", text::in_message(found))
}

/// The uid of an object and the time and grace period of its deletion are immutable.
fn changed_identity(object: &Value, old: &Value) -> Vec<FieldError> {
    let seconds = [object, old].map(|object| object["metadata"].get("deletionGracePeriodSeconds"));
    let (new, old) = (Meta::of(object), Meta::of(old));
    let members = [
        ("uid", new.uid(), old.uid()),
        ("deletionTimestamp", new.deletion_timestamp(), old.deletion_timestamp()),
    ];
    let wrong = members.into_iter().filter_map(|(name, new, old)| Some((name, new.filter(|_| new != old)?)));
    let path = FieldPath::root().field("metadata");
    let immutable = |name: &str, value: Value| rules::invalid(&path.field(name), value, "field is immutable");
    let mut errors: Vec<FieldError> = wrong.map(|(name, value)| immutable(name, value.into())).collect();
    let [new, old] = seconds;
    if let Some(seconds) = new.filter(|_| new != old) {
        errors.push(immutable("deletionGracePeriodSeconds", seconds.clone()));
    }
    errors
}

/// No finalizer can be added to an object that is being deleted.
fn added_finalizers(object: &Value, old: &Value) -> Option<FieldError> {
    let (new, old) = (Meta::of(object), Meta::of(old));
    old.deletion_timestamp()?;
    let known: HashSet<&str> = old.finalizers().collect();
    let mut added: Vec<String> =
        new.finalizers().filter(|name| !known.contains(name)).map(|name| format!("{name:?}")).collect();
    added.sort();
    added.dedup();
    let path = FieldPath::root().field("metadata").field("finalizers");
    let what = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        added.join(", ")
    );
    (!added.is_empty()).then(|| FieldError::new(&path, FieldErrorKind::Forbidden, None, what))
}

/// Fails with the errors, if there are any.
pub fn refuse(target: &Target, object: &Value, errors: &[FieldError]) -> Result<(), ApiError> {
    if errors.is_empty() {
        return Ok(());
    }
    let causes = errors.iter().map(Cause::from);
    Err(ApiError::invalid(&target.served.resource, Meta::of(object).name().unwrap_or_default(), causes))
}

/// Refuses an object that does not match the path, and sets its namespace.
pub fn fits_path(target: &Target, object: &mut Value, name: Option<&str>) -> Result<(), ApiError> {
    if !target.served.resource.namespaced && Meta::of(object).namespace().is_some() {
        metadata_mut(object).remove("namespace");
    }
    check_path(target, object, name)?;
    if let (Some(namespace), None) = (&target.namespace, Meta::of(object).namespace()) {
        metadata_mut(object).insert("namespace".into(), namespace.as_str().into());
    }
    Ok(())
}

/// Refuses an object whose kind, name or namespace does not match the path.
pub fn check_path(target: &Target, object: &Value, name: Option<&str>) -> Result<(), ApiError> {
    let served = &target.served;
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let other = |key: &str, own: &str| !text(key).is_empty() && text(key) != own;
    if other("kind", &served.resource.kind) || other("apiVersion", &served.api_version) {
        return Err(ApiError::BadRequest(format!(
            "the object provided is unrecognized (must be of type {}): it is {} {}",
            served.resource.kind,
            text("apiVersion"),
            text("kind"),
        )));
    }
    let meta = Meta::of(object);
    if let (Some(path), Some(body)) = (name, meta.name())
        && path != body
    {
        return Err(ApiError::BadRequest(format!(
            "the name of the object ({body}) does not match the name on the URL ({path})"
        )));
    }
    if let (Some(path), None) = (name, meta.name()) {
        return Err(ApiError::BadRequest(format!(
            "the name of the object ({path} based on URL) was undeterminable: name must be provided"
        )));
    }
    match (&target.namespace, meta.namespace()) {
        (Some(path), Some(body)) if path != body => Err(ApiError::BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request".into(),
        )),
        _ => Ok(()),
    }
}
