//! From an `OpenAPI` v3 schema to a [`TypeInfo`].
//!
//! Two kinds of schema come in: the `openAPIV3Schema` of a custom resource, to which the fields every object has are
//! added, and those of builtin kinds, which refer to each other by `$ref`.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{
    Atom, DEDUCED, ListRelation, ListType, MapType, PatchMeta, Scalar, StructField, TypeId, TypeInfo,
    UNTYPED, meta::object_meta_schema,
};

/// Why a schema has no [`TypeInfo`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// `type` is none of JSON's.
    #[error("unrecognized type: '{0}'")]
    Type(String),
    /// An array without `items`.
    #[error("`items` must be specified on arrays")]
    NoItems,
    /// `x-kubernetes-list-type: map` without keys.
    #[error("missing map keys")]
    NoMapKeys,
    /// `x-kubernetes-list-type` with another value.
    #[error("unknown list type {0}")]
    ListType(String),
    /// `x-kubernetes-map-type` with another value.
    #[error("unknown map type {0}")]
    MapType(String),
    /// `x-kubernetes-patch-strategy` with another value.
    #[error("unknown patch strategy {0}")]
    PatchStrategy(String),
    /// A `$ref` to a definition that is not there.
    #[error("no definition {0}")]
    NoDefinition(String),
    /// More types than an index can name, or a schema that is too deep.
    #[error("the schema is too large")]
    TooLarge,
}

/// Deeper schemas than any of Kubernetes; the limit keeps hostile ones off the stack.
const MAX_DEPTH: usize = 200;

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";

impl TypeInfo {
    /// The type of a custom resource version. `apiVersion`, `kind` and `metadata` are typed whatever the schema says
    /// of them.
    pub fn from_crd_schema(schema: &Value) -> Result<Self, SchemaError> {
        let mut builder = Builder::new(None);
        let root = builder.schema(schema, Context { resource: true, ..Context::default() })?;
        Ok(Self { atoms: builder.atoms, root })
    }

    /// The type of a builtin kind: the definition `name` among `definitions`, which are the values of
    /// `components.schemas` of an `OpenAPI` v3 document.
    pub fn from_definitions(definitions: &Map<String, Value>, name: &str) -> Result<Self, SchemaError> {
        let mut builder = Builder::new(Some(definitions));
        let root = builder.definition(name, 0)?;
        Ok(Self { atoms: builder.atoms, root })
    }
}

pub(super) fn common_atoms() -> Vec<Atom> {
    let anything = |rest, atomic| Atom {
        scalar: Some(Scalar::Untyped),
        list: Some(ListType { items: UNTYPED, relation: ListRelation::Atomic }),
        map: Some(MapType { fields: Vec::new(), rest: Some(rest), atomic }),
    };
    vec![anything(UNTYPED, true), anything(DEDUCED, false)]
}

struct Builder<'a> {
    definitions: Option<&'a Map<String, Value>>,
    /// Definitions that are built or being built: they may refer to themselves.
    named: HashMap<&'a str, TypeId>,
    object_meta: Option<TypeId>,
    atoms: Vec<Atom>,
}

#[derive(Clone, Copy, Default)]
struct Context {
    depth: usize,
    /// Unknown fields are kept from here on.
    preserve: bool,
    /// The schema is that of a whole object.
    resource: bool,
}

impl Context {
    fn below(self) -> Self {
        Self { depth: self.depth + 1, resource: false, ..self }
    }
}

impl<'a> Builder<'a> {
    fn new(definitions: Option<&'a Map<String, Value>>) -> Self {
        Self { definitions, named: HashMap::new(), object_meta: None, atoms: common_atoms() }
    }

    fn push(&mut self, atom: Atom) -> Result<TypeId, SchemaError> {
        let id = u32::try_from(self.atoms.len()).map_err(|_| SchemaError::TooLarge)?;
        self.atoms.push(atom);
        Ok(TypeId(id))
    }

    fn definition(&mut self, name: &str, depth: usize) -> Result<TypeId, SchemaError> {
        if let Some(id) = self.named.get(name) {
            return Ok(*id);
        }
        let missing = || SchemaError::NoDefinition(name.to_owned());
        let (name, schema) = self.definitions.and_then(|all| all.get_key_value(name)).ok_or_else(missing)?;
        let id = self.push(Atom::default())?;
        self.named.insert(name, id);
        let atom = match name.as_str() {
            QUANTITY => Atom { scalar: Some(Scalar::Untyped), ..Atom::default() },
            RAW_EXTENSION => self.atoms[UNTYPED.0 as usize].clone(),
            _ => self.atom(schema, Context { depth: depth + 1, ..Context::default() })?,
        };
        self.atoms[id.0 as usize] = atom;
        Ok(id)
    }

    fn schema(&mut self, schema: &Value, context: Context) -> Result<TypeId, SchemaError> {
        if context.depth > MAX_DEPTH {
            return Err(SchemaError::TooLarge);
        }
        if let Some(name) = reference(schema) {
            let id = self.definition(name, context.depth)?;
            return self.with_map_type(id, map_type(schema)?);
        }
        let atom = self.atom(schema, context)?;
        self.push(atom)
    }

    /// A reference may override how the map it refers to hangs together.
    fn with_map_type(&mut self, id: TypeId, atomic: Option<bool>) -> Result<TypeId, SchemaError> {
        let Some(atomic) = atomic else { return Ok(id) };
        let mut atom = self.atoms[id.0 as usize].clone();
        match &mut atom.map {
            Some(map) if map.atomic != atomic => map.atomic = atomic,
            _ => return Ok(id),
        }
        self.push(atom)
    }

    fn atom(&mut self, schema: &Value, mut context: Context) -> Result<Atom, SchemaError> {
        context.preserve |= is_true(schema, "x-kubernetes-preserve-unknown-fields");
        let scalar = |scalar| Ok(Atom { scalar: Some(scalar), ..Atom::default() });
        match text(schema, "type").unwrap_or_default() {
            "" => Ok(Atom {
                scalar: Some(Scalar::Untyped),
                list: Some(self.list(schema, context)?),
                map: Some(self.map(schema, context)?),
            }),
            "object" => Ok(Atom { map: Some(self.map(schema, context)?), ..Atom::default() }),
            "array" => Ok(Atom { list: Some(self.list(schema, context)?), ..Atom::default() }),
            "integer" | "number" => scalar(Scalar::Numeric),
            "boolean" => scalar(Scalar::Boolean),
            "string" => scalar(match text(schema, "format").unwrap_or_default() {
                "" | "byte" => Scalar::String,
                _ => Scalar::Untyped,
            }),
            other => Err(SchemaError::Type(other.to_owned())),
        }
    }

    fn map(&mut self, schema: &Value, context: Context) -> Result<MapType, SchemaError> {
        let mut fields = Vec::new();
        let is_resource = context.resource || is_true(schema, "x-kubernetes-embedded-resource");
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, member) in properties.into_iter().flatten() {
            if !(is_resource && is_type_or_object_meta(name)) {
                fields.push(StructField {
                    name: name.as_str().into(),
                    of: self.schema(member, context.below())?,
                    default: member
                        .get("default")
                        .filter(|default| !default.is_null())
                        .cloned()
                        .or_else(|| self.zero_of_required(schema, name, member)),
                    patch: patch_meta(member),
                });
            }
        }
        if is_resource {
            self.resource_fields(&mut fields)?;
        }
        let rest = match schema.get("additionalProperties") {
            None => (context.preserve || fields.is_empty()).then_some(DEDUCED),
            Some(Value::Bool(allowed)) => allowed.then_some(DEDUCED),
            Some(members) => Some(self.schema(members, context.below())?),
        };
        fields.sort_unstable_by(|left, right| left.name.cmp(&right.name));
        Ok(MapType { fields, rest, atomic: map_type(schema)?.unwrap_or(false) })
    }

    /// Of built-in kinds, a text that is always there is empty where it is not given.
    fn zero_of_required(&self, schema: &Value, name: &str, member: &Value) -> Option<Value> {
        let mut required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        let applies = self.definitions.is_some()
            && text(member, "type") == Some("string")
            && required.any(|required| required == name);
        applies.then(|| Value::from(""))
    }

    fn resource_fields(&mut self, fields: &mut Vec<StructField>) -> Result<(), SchemaError> {
        let metadata = match self.object_meta {
            Some(id) => id,
            None => self.schema(&object_meta_schema(), Context::default())?,
        };
        self.object_meta = Some(metadata);
        let string = self.push(Atom { scalar: Some(Scalar::String), ..Atom::default() })?;
        for (name, of) in [("apiVersion", string), ("kind", string), ("metadata", metadata)] {
            fields.push(StructField { name: name.into(), of, default: None, patch: None });
        }
        Ok(())
    }

    fn list(&mut self, schema: &Value, context: Context) -> Result<ListType, SchemaError> {
        let relation = list_relation(schema)?;
        let items = match schema.get("items") {
            Some(items) => self.schema(items, context.below())?,
            None if text(schema, "type").is_some_and(|of| !of.is_empty()) => {
                return Err(SchemaError::NoItems);
            }
            None => UNTYPED,
        };
        Ok(ListType { items, relation })
    }
}

/// The fields of an object that have the same type everywhere.
fn is_type_or_object_meta(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

/// The name of the definition a schema refers to, directly or by an `allOf` of one.
fn reference(schema: &Value) -> Option<&str> {
    let direct = text(schema, "$ref");
    let wrapped = || match schema.get("allOf")?.as_array()?.as_slice() {
        [only] => text(only, "$ref"),
        _ => None,
    };
    direct.or_else(wrapped)?.rsplit('/').next()
}

fn text<'v>(schema: &'v Value, key: &str) -> Option<&'v str> {
    schema.get(key)?.as_str()
}

fn is_true(schema: &Value, key: &str) -> bool {
    schema.get(key).and_then(Value::as_bool).unwrap_or(false)
}

/// Returns whether the map is atomic, if the schema says so.
fn map_type(schema: &Value) -> Result<Option<bool>, SchemaError> {
    match text(schema, "x-kubernetes-map-type") {
        None => Ok(None),
        Some("atomic") => Ok(Some(true)),
        Some("granular") => Ok(Some(false)),
        Some(other) => Err(SchemaError::MapType(other.to_owned())),
    }
}

fn list_relation(schema: &Value) -> Result<ListRelation, SchemaError> {
    match (text(schema, "x-kubernetes-list-type"), text(schema, "x-kubernetes-patch-strategy")) {
        (Some("atomic"), _) | (None, None | Some("retainKeys")) => Ok(ListRelation::Atomic),
        (Some("set"), _) => Ok(ListRelation::Set),
        (Some("map"), _) => {
            let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
            let keys = keys.ok_or(SchemaError::NoMapKeys)?.iter().filter_map(Value::as_str).map(Into::into);
            Ok(ListRelation::Map(keys.collect()))
        }
        (Some(other), _) => Err(SchemaError::ListType(other.to_owned())),
        // Older types have patch extensions only; they mean the same.
        (None, Some("merge" | "merge,retainKeys")) => {
            Ok(match text(schema, "x-kubernetes-patch-merge-key") {
                Some(key) => ListRelation::Map(vec![key.into()]),
                None => ListRelation::Set,
            })
        }
        (None, Some(other)) => Err(SchemaError::PatchStrategy(other.to_owned())),
    }
}

fn patch_meta(schema: &Value) -> Option<Box<PatchMeta>> {
    let strategies = text(schema, "x-kubernetes-patch-strategy");
    let merge_key = text(schema, "x-kubernetes-patch-merge-key").map(ToOwned::to_owned);
    (strategies.is_some() || merge_key.is_some()).then(|| {
        let strategies =
            strategies.into_iter().flat_map(|all| all.split(',')).map(ToOwned::to_owned).collect();
        Box::new(PatchMeta { strategies, merge_key })
    })
}
