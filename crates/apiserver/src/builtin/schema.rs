//! The language in which the types of built-in kinds are written down, and its translation to OpenAPI v3.
//!
//! A [`Definition`] is one named type, as data: the tables under `definitions` are what a reader of an API
//! reference would expect, one line per field. Kinds get `apiVersion`, `kind` and `metadata` here, and the type
//! of their lists, so that no table repeats them.

use serde_json::{Map, Value, json};

use super::definitions::Package;

/// The prefix of references to other definitions in an OpenAPI v3 document.
pub const REFERENCE_PREFIX: &str = "#/components/schemas/";

/// The type of a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Type {
    Text,
    /// Base64.
    Bytes,
    Bool,
    Int32,
    Int64,
    Double,
    /// Another definition.
    Of(Package, &'static str),
    /// A list that says nothing about how it is merged.
    List(&'static Type),
    /// A list that is replaced as a whole.
    Atomic(&'static Type),
    /// A list of distinct scalars.
    Set(&'static Type),
    /// A list of objects that are told apart by the value of one member.
    Keyed(&'static Type, &'static str),
    Map(&'static Type),
}

/// One field of a [`Definition`].
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a mark of its own in a table")]
pub(super) struct Field {
    pub name: &'static str,
    pub kind: Type,
    pub about: &'static str,
    pub required: bool,
    /// Shown even if empty, though not required.
    pub always: bool,
    /// Empty is not the same as absent.
    pub pointer: bool,
    /// A strategic merge patch merges this list; others it replaces.
    pub merged: bool,
    /// The only values, where they are few.
    pub values: &'static [&'static str],
}

pub(super) const fn field(name: &'static str, kind: Type, about: &'static str) -> Field {
    Field { name, kind, about, required: false, always: false, pointer: false, merged: false, values: &[] }
}

impl Field {
    pub const fn required(self) -> Self {
        Self { required: true, ..self }
    }

    pub const fn always(self) -> Self {
        Self { always: true, ..self }
    }

    pub const fn pointer(self) -> Self {
        Self { pointer: true, ..self }
    }

    pub const fn merged(self) -> Self {
        Self { merged: true, ..self }
    }

    pub const fn one_of(self, values: &'static [&'static str]) -> Self {
        Self { values, ..self }
    }
}

/// The kind of a [`Definition`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DefinitionKind {
    /// A kind that is stored and listed.
    Kind,
    /// A kind that is only answered to.
    Answer,
    /// An envelope of the API itself: it has `apiVersion` and `kind`, and its own fields.
    Envelope,
    /// A part of others.
    Part,
    /// A part that server-side apply owns as a whole.
    AtomicPart,
    /// A time, as a string.
    Time,
    /// A number with a unit, as a string or a number.
    Quantity,
    /// An object with any members.
    Open,
    /// Any JSON at all.
    Any,
    /// A schema, several, or a stand-in for one.
    Schemas,
}

/// One named type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Definition {
    pub name: &'static str,
    pub kind: DefinitionKind,
    pub about: &'static str,
    pub fields: &'static [Field],
}

pub(super) const fn define(
    name: &'static str,
    kind: DefinitionKind,
    about: &'static str,
    fields: &'static [Field],
) -> Definition {
    Definition { name, kind, about, fields }
}

impl Definition {
    /// The fields that every definition of this kind has.
    const fn common_fields(&self) -> &'static [Field] {
        match self.kind {
            DefinitionKind::Kind | DefinitionKind::Answer => &[API_VERSION, KIND, METADATA],
            DefinitionKind::Envelope => &[API_VERSION, KIND],
            _ => &[],
        }
    }

    /// All fields; the definition's own win over those of its kind.
    pub fn all_fields(&self) -> impl Iterator<Item = &'static Field> {
        let own = self.fields;
        let common = self.common_fields().iter();
        common.filter(move |field| own.iter().all(|own| own.name != field.name)).chain(own)
    }

    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.all_fields().find(|field| field.name == name)
    }
}

// What every object has is described in Kubernetes' own sentences: people and tools know them word by word.
const API_VERSION: Field = field(
    "apiVersion",
    Type::Text,
    "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources",
);
const KIND: Field = field(
    "kind",
    Type::Text,
    "Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds",
);
const METADATA: Field = field(
    "metadata",
    Type::Of(Package::Meta, "ObjectMeta"),
    "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata",
);
const LIST_METADATA: Field = field(
    "metadata",
    Type::Of(Package::Meta, "ListMeta"),
    "Standard list metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds",
);

/// The OpenAPI v3 schemas of one package, by full name, in the order of the table.
pub(super) fn schemas_of(package: Package, table: &[Definition], into: &mut Map<String, Value>) {
    for definition in table {
        into.insert(package.name_of(definition.name), schema_of(package, definition));
        if definition.kind == DefinitionKind::Kind {
            let (name, schema) = list_of(package, definition);
            into.insert(name, schema);
        }
    }
}

fn schema_of(package: Package, definition: &Definition) -> Value {
    match definition.kind {
        DefinitionKind::Open => return json!({"type": "object", "description": definition.about}),
        DefinitionKind::Any | DefinitionKind::Schemas => return json!({"description": definition.about}),
        DefinitionKind::Time => {
            return json!({"type": "string", "format": "date-time", "description": definition.about});
        }
        DefinitionKind::Quantity => {
            return json!({"oneOf": [{"type": "string"}, {"type": "number"}], "description": definition.about});
        }
        DefinitionKind::Kind
        | DefinitionKind::Answer
        | DefinitionKind::Envelope
        | DefinitionKind::Part
        | DefinitionKind::AtomicPart => {}
    }
    let mut schema = object(definition.about, definition.all_fields());
    match definition.kind {
        DefinitionKind::Kind | DefinitionKind::Answer | DefinitionKind::Envelope => {
            schema["x-kubernetes-group-version-kind"] = json!([package.identity(definition.name)]);
        }
        DefinitionKind::AtomicPart => schema["x-kubernetes-map-type"] = "atomic".into(),
        _ => {}
    }
    schema
}

fn list_of(package: Package, definition: &Definition) -> (String, Value) {
    let name = format!("{}List", definition.name);
    let mut schema =
        object(&format!("A list of {} objects.", definition.name), [&API_VERSION, &KIND, &LIST_METADATA]);
    schema["properties"]["items"] = json!({
        "type": "array",
        "description": "The objects.",
        "items": reference(&package.name_of(definition.name)),
    });
    schema["required"] = json!(["items"]);
    schema["x-kubernetes-group-version-kind"] = json!([package.identity(&name)]);
    (package.name_of(&name), schema)
}

fn object<'a>(about: &str, fields: impl IntoIterator<Item = &'a Field>) -> Value {
    let mut properties: Vec<(&str, Value)> = Vec::new();
    let mut required = Vec::new();
    for field in fields {
        properties.push((field.name, property(field)));
        if field.required {
            required.push(field.name);
        }
    }
    // Documents are hashed and compared: the order of the tables is for readers, this one is for machines.
    properties.sort_unstable_by_key(|(name, _)| *name);
    required.sort_unstable();
    let properties: Map<String, Value> =
        properties.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    // Stated even where there are none: an object without this keyword is an open one.
    let mut schema = json!({"type": "object", "description": about, "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn property(field: &Field) -> Value {
    let mut schema = value(field.kind);
    if schema.get("$ref").is_some() {
        // Siblings of `$ref` are ignored in OpenAPI v3; the detour keeps the description.
        schema = json!({"allOf": [schema]});
    }
    schema["description"] = field.about.into();
    if !field.values.is_empty() {
        schema["enum"] = json!(field.values);
    }
    if field.merged {
        schema["x-kubernetes-patch-strategy"] = "merge".into();
        if let Type::Keyed(_, key) = field.kind {
            schema["x-kubernetes-patch-merge-key"] = key.into();
        }
    }
    schema
}

fn value(kind: Type) -> Value {
    let list = |items: &Type| json!({"type": "array", "items": value(*items)});
    match kind {
        Type::Text => json!({"type": "string"}),
        Type::Bytes => json!({"type": "string", "format": "byte"}),
        Type::Bool => json!({"type": "boolean"}),
        Type::Int32 => json!({"type": "integer", "format": "int32"}),
        Type::Int64 => json!({"type": "integer", "format": "int64"}),
        Type::Double => json!({"type": "number", "format": "double"}),
        Type::Of(package, name) => reference(&package.name_of(name)),
        Type::List(items) => list(items),
        Type::Atomic(items) => with(list(items), "x-kubernetes-list-type", "atomic".into()),
        Type::Set(items) => with(list(items), "x-kubernetes-list-type", "set".into()),
        Type::Keyed(items, key) => with(
            with(list(items), "x-kubernetes-list-type", "map".into()),
            "x-kubernetes-list-map-keys",
            json!([key]),
        ),
        Type::Map(values) => json!({"type": "object", "additionalProperties": value(*values)}),
    }
}

fn with(mut schema: Value, keyword: &str, value: Value) -> Value {
    schema[keyword] = value;
    schema
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("{REFERENCE_PREFIX}{name}")})
}
