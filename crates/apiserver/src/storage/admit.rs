//! What a body must be before it counts as an object: known fields, defaults, valid metadata, schema and rules.

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

/// How an object came about; what is wrong with it is told accordingly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It is the body of the request.
    Body,
    /// A patch made it; the text is what errors show of the patch.
    Patch(String),
    /// A strategic merge patch made it, likewise.
    StrategicPatch(String),
    /// A JSON patch made it, likewise.
    JsonPatch(String),
    /// An apply made it; the text names what was applied.
    Apply(String),
}

/// Drops unknown fields and fills in defaults. What was dropped is an error or a warning, as the client wants.
pub fn shape(
    target: &Target,
    object: &mut Value,
    options: &WriteOptions,
    origin: &Origin,
) -> Result<(), ApiError> {
    let resource = &target.served.resource;
    let told = if resource.custom {
        let metadata = object.get("metadata").filter(|metadata| metadata.is_object());
        let checked = metadata.map(|metadata| check_metadata(said(metadata, origin)));
        if let (Some(Err(_)), Origin::Apply(_)) = (&checked, origin) {
            drop_malformed_metadata(metadata_mut(object));
        } else if let Some(Err(error)) = checked {
            return Err(undecodable(target, &error.to_string(), origin));
        }
        for name in ["labels", "annotations"] {
            let texts = object.get_mut("metadata").and_then(|metadata| metadata.get_mut(name));
            let texts = texts.and_then(Value::as_object_mut).into_iter().flatten();
            // As Go reads nothing into a map of texts.
            texts.filter(|(_, value)| value.is_null()).for_each(|(_, value)| *value = "".into());
        }
        shape_custom(target, object, origin)?
    } else {
        let told = shape_builtin(target, object, origin)?;
        rules::apply_defaults(&resource.group, &resource.kind, object);
        // What is applied has been compared with its type; of what that leaves open nobody asks.
        if matches!(origin, Origin::Apply(_)) { Vec::new() } else { told }
    };
    let mut told = told;
    if matches!(origin, Origin::Patch(_) | Origin::StrategicPatch(_)) {
        // A patched object is read with its members in order.
        told.sort();
    }
    judge_fields(resource, &target.served.version.name, options, origin, told)
}

/// Refuses or tells what a body of a built-in kind says twice, and what it says of fields that nobody knows.
pub fn judge_body(
    resource: &Resource,
    options: &WriteOptions,
    unknown_fields: &[String],
) -> Result<(), ApiError> {
    let unknown = unknown_fields.iter().map(|path| body::unknown_field(path)).collect();
    judge_fields(resource, &resource.storage_version, options, &Origin::Body, unknown)
}

/// Refuses or tells what a write says twice, and what it says of fields that nobody knows.
fn judge_fields(
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
        // Of a field that a type does not have, nobody looks how often it is there.
        let unknown: HashSet<_> =
            unknown.iter().filter_map(|told| told.strip_prefix("unknown field ")).collect();
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
    let told: Vec<String> = repeated.into_iter().map(of_patch).chain(unknown).collect();
    match options.field_validation {
        FieldValidation::Strict if !told.is_empty() => Err(match origin {
            Origin::Patch(patch) | Origin::StrategicPatch(patch) | Origin::JsonPatch(patch) => {
                wrong_patch(patch, &format!("strict decoding error: {}", told.join(", ")))
            }
            Origin::Body | Origin::Apply(_) => body::strict_error(&resource.kind, version, &told),
        }),
        FieldValidation::Warn => {
            for warning in told {
                options.warnings.add(warning);
            }
            Ok(())
        }
        FieldValidation::Strict | FieldValidation::Ignore => Ok(()),
    }
}

/// What a client says in metadata. Who manages which field is the server's own word in what was applied, and most of it.
fn said(metadata: &Value, origin: &Origin) -> Value {
    match (metadata, origin) {
        (Value::Object(members), Origin::Apply(_)) => {
            let members = members.iter().filter(|(name, _)| *name != "managedFields");
            members.map(|(name, value)| (name.clone(), value.clone())).collect::<Map<_, _>>().into()
        }
        _ => metadata.clone(),
    }
}

fn shape_custom(target: &Target, object: &mut Value, origin: &Origin) -> Result<Vec<String>, ApiError> {
    let of_metadata = object.get_mut("metadata").map(|metadata| {
        let said = said(metadata, origin);
        drop_unknown_metadata(metadata, said)
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

/// Built-in kinds are read as Go's types would read them.
fn shape_builtin(target: &Target, object: &mut Value, origin: &Origin) -> Result<Vec<String>, ApiError> {
    let resource = &target.served.resource;
    // An explicitly empty managedFields is not the same as nothing said of them.
    let forgets = object["metadata"]["managedFields"].as_array().is_some_and(Vec::is_empty);
    let emptied = take_emptied(target, object);
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
    if forgets {
        metadata_mut(object).insert("managedFields".into(), Value::Array(Vec::new()));
    }
    put_emptied(object, emptied);
    Ok(decoded.unknown_fields.iter().map(|path| body::unknown_field(path)).collect())
}

/// Takes out the maps that a write empties on purpose. They are not stored and nobody manages them; but where an object
/// is immutable, an empty map is not the same as none. Gives the one of which that is true; `data` of a ConfigMap is not one.
pub fn take_emptied(target: &Target, object: &mut Value) -> Option<&'static str> {
    let judged = match &*target.served.store_name {
        "/secrets" => "data",
        "/configmaps" => "binaryData",
        _ => return None,
    };
    let Value::Object(members) = object else { return None };
    let is_empty = |value: &Value| value.as_object().is_some_and(Map::is_empty);
    let emptied = members.get(judged).is_some_and(is_empty);
    members.retain(|name, value| !(matches!(name.as_str(), "data" | "binaryData") && is_empty(value)));
    emptied.then_some(judged)
}

/// Puts it back, to be judged.
pub fn put_emptied(object: &mut Value, emptied: Option<&str>) {
    if let Some(name) = emptied {
        object[name] = Value::Object(Map::new());
    }
}

fn wrong_patch(patch: &str, error: &str) -> ApiError {
    let what = format!("Invalid value: {}: {error}", go::quote(patch));
    let causes = vec![Cause::new("FieldValueInvalid", what, "patch")];
    ApiError::Invalid { kind: GroupResource::default(), name: String::new(), causes }
}

/// What is said of an object that has a value of the wrong type.
fn undecodable(target: &Target, error: &str, origin: &Origin) -> ApiError {
    let resource = &target.served.resource;
    let (group, kind, version) = (&resource.group, &resource.kind, &target.served.version.name);
    match origin {
        Origin::Body => ApiError::BadRequest(format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: {error}"
        )),
        Origin::Patch(patch) | Origin::StrategicPatch(patch) | Origin::JsonPatch(patch) => {
            wrong_patch(patch, error)
        }
        Origin::Apply(about) => ApiError::Unclassified(format!(
            "failed to convert new object ({about}) to proper version: unable to convert unstructured object to \
             {group}/{version}, Kind={kind}: {error}"
        )),
    }
}

/// Refuses what is not valid, on its own and as a change of `old`.
pub fn validate(target: &Target, object: &Value, old: Option<&Value>) -> Result<(), ApiError> {
    let resource = &target.served.resource;
    let mut errors = metadata::validate(object);
    errors.extend(old.and_then(|old| late_finalizers(object, old)));
    errors.extend(old.map(|old| other_identity(object, old)).unwrap_or_default());
    if resource.custom {
        errors = judge_custom(target, errors, object, old);
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
            Some(old) => rules::validate_update(group, kind, object, old),
        };
        if (group, kind) == ("", "Event") && !broken.is_empty() {
            // Their rules know nothing of metadata, which is judged only after them.
            errors.clear();
        }
        errors.extend(broken);
    }
    // What is wrong by itself needs no room.
    if let (Some(room), true, false) = (&target.served.room, errors.is_empty(), target.status) {
        errors.extend(room.judge(object, old));
    }
    refuse(target, object, &errors)
}

/// Adds what the schema of a custom object, its rules and its scale have against it.
fn judge_custom(
    target: &Target,
    errors: Vec<FieldError>,
    object: &Value,
    old: Option<&Value>,
) -> Vec<FieldError> {
    let mut errors = target.served.schema.validate_after(errors, object, old);
    errors.extend(wrong_replicas(target, object));
    errors.extend(wrong_selector(target, object));
    if target.status {
        // The status is judged by itself then, and names its members from there.
        for error in &mut errors {
            if let Some(rest) = error.detail.strip_prefix("status.") {
                error.detail = rest.to_owned();
            }
        }
    }
    errors
}

/// Tells what is valid and yet hardly meant.
pub fn warn(target: &Target, object: &Value, old: Option<&Value>, options: &WriteOptions) {
    let resource = &target.served.resource;
    if target.status {
        return;
    }
    let told = if resource.custom {
        rules::warnings::of_finalizers(object, old)
    } else {
        rules::warnings::warnings(&resource.group, &resource.kind, object, old)
    };
    for warning in told {
        options.warnings.add(warning);
    }
}

/// What the scale of an object would show must be a number that can be shown.
fn wrong_replicas(target: &Target, object: &Value) -> Option<FieldError> {
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

/// The selector of a scale is judged with the status.
fn wrong_selector(target: &Target, object: &Value) -> Option<FieldError> {
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

/// An object keeps its uid, and when and how it was deleted. A replacement that names another uid was refused before.
fn other_identity(object: &Value, old: &Value) -> Vec<FieldError> {
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
    let [stated, kept] = seconds;
    if let Some(stated) = stated.filter(|_| stated != kept) {
        errors.push(immutable("deletionGracePeriodSeconds", stated.clone()));
    }
    errors
}

/// What is being deleted waits for the finalizers it has, and for no new ones.
fn late_finalizers(object: &Value, old: &Value) -> Option<FieldError> {
    let (new, old) = (Meta::of(object), Meta::of(old));
    old.deletion_timestamp()?;
    let known: HashSet<&str> = old.finalizers().collect();
    let mut late: Vec<String> =
        new.finalizers().filter(|name| !known.contains(name)).map(|name| format!("{name:?}")).collect();
    late.sort();
    late.dedup();
    let path = FieldPath::root().field("metadata").field("finalizers");
    let what = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        late.join(", ")
    );
    (!late.is_empty()).then(|| FieldError::new(&path, FieldErrorKind::Forbidden, None, what))
}

/// An error with its causes, if there is one.
pub fn refuse(target: &Target, object: &Value, errors: &[FieldError]) -> Result<(), ApiError> {
    if errors.is_empty() {
        return Ok(());
    }
    let causes = errors.iter().map(Cause::from);
    Err(ApiError::invalid(&target.served.resource, Meta::of(object).name().unwrap_or_default(), causes))
}

/// Refuses a body that is about something else than the path, and says in which namespace it is.
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

/// Refuses a body that is about something else than the path.
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
