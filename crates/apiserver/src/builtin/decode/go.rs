//! Facts about Go's types that the tables lack: their names, and the order of their fields.

use super::super::{
    definitions::Package,
    protobuf::numbers,
    schema::{Definition, DefinitionKind, Type},
};

/// Lists and maps that have a name of their own, by structure and field.
const NAMED: &[(&str, &str, &str)] = &[
    ("NodeStatus", "capacity", "v1.ResourceList"),
    ("NodeStatus", "allocatable", "v1.ResourceList"),
    ("JSONSchemaProps", "dependencies", "v1.JSONSchemaDependencies"),
    ("JSONSchemaProps", "definitions", "v1.JSONSchemaDefinitions"),
    ("JSONSchemaProps", "x-kubernetes-validations", "v1.ValidationRules"),
];

/// Texts that have a name of their own, by themselves or in a list.
const NAMED_TEXTS: &[(&str, &str, &str)] = &[
    ("NamespaceSpec", "finalizers", "v1.FinalizerName"),
    ("NamespaceStatus", "phase", "v1.NamespacePhase"),
    ("NamespaceCondition", "type", "v1.NamespaceConditionType"),
    ("NamespaceCondition", "status", "v1.ConditionStatus"),
    ("Secret", "type", "v1.SecretType"),
    ("ObjectReference", "uid", "types.UID"),
    ("Taint", "effect", "v1.TaintEffect"),
    ("ConfigMapNodeConfigSource", "uid", "types.UID"),
    ("NodeStatus", "phase", "v1.NodePhase"),
    ("NodeStatus", "volumesInUse", "v1.UniqueVolumeName"),
    ("NodeAddress", "type", "v1.NodeAddressType"),
    ("NodeCondition", "type", "v1.NodeConditionType"),
    ("NodeCondition", "status", "v1.ConditionStatus"),
    ("AttachedVolume", "name", "v1.UniqueVolumeName"),
    ("LeaseSpec", "strategy", "v1.CoordinatedLeaseStrategy"),
    ("CustomResourceDefinitionSpec", "scope", "v1.ResourceScope"),
    ("CustomResourceConversion", "strategy", "v1.ConversionStrategyType"),
    ("CustomResourceDefinitionCondition", "type", "v1.CustomResourceDefinitionConditionType"),
    ("CustomResourceDefinitionCondition", "status", "v1.ConditionStatus"),
    ("JSONSchemaProps", "$schema", "v1.JSONSchemaURL"),
    ("ValidationRule", "reason", "v1.FieldValueErrorReason"),
    ("ObjectMeta", "uid", "types.UID"),
    ("OwnerReference", "uid", "types.UID"),
    ("ManagedFieldsEntry", "operation", "v1.ManagedFieldsOperationType"),
    ("LabelSelectorRequirement", "operator", "v1.LabelSelectorOperator"),
    ("FieldSelectorRequirement", "operator", "v1.FieldSelectorOperator"),
    ("DeleteOptions", "propagationPolicy", "v1.DeletionPropagation"),
    ("Preconditions", "uid", "types.UID"),
];

/// Structures whose fields have another order than their numbers in protobuf.
const ORDERS: &[(&str, &[&str])] = &[
    ("Secret", &["metadata", "immutable", "data", "stringData", "type"]),
    ("ConfigMap", &["metadata", "immutable", "data", "binaryData"]),
    (
        "NodeSpec",
        &["podCIDR", "podCIDRs", "providerID", "unschedulable", "taints", "configSource", "externalID"],
    ),
    (
        "CustomResourceDefinitionVersion",
        &[
            "name",
            "served",
            "storage",
            "deprecated",
            "deprecationWarning",
            "schema",
            "subresources",
            "additionalPrinterColumns",
            "selectableFields",
        ],
    ),
    ("WebhookClientConfig", &["url", "service", "caBundle"]),
    ("OwnerReference", &["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"]),
];

/// Go's name of the type of a field, or of what the field holds.
pub(super) fn type_name(structure: &str, field: &str, kind: Type) -> String {
    let find = |table: &[(&str, &str, &'static str)]| {
        table.iter().find(|(of, name, _)| *of == structure && *name == field).map(|(_, _, name)| *name)
    };
    match (kind, find(NAMED)) {
        (Type::Map(_) | Type::Keyed(..), Some(name)) => name.to_owned(),
        _ => plain_name(kind, find(NAMED_TEXTS).unwrap_or("string")),
    }
}

fn plain_name(kind: Type, text: &str) -> String {
    match kind {
        Type::Text => text.into(),
        Type::Bytes => "[]uint8".into(),
        Type::Bool => "bool".into(),
        Type::Int32 => "int32".into(),
        Type::Int64 => "int64".into(),
        Type::Double => "float64".into(),
        Type::Of(_, name) => format!("v1.{name}"),
        Type::List(items) | Type::Atomic(items) | Type::Set(items) | Type::Keyed(items, _) => {
            format!("[]{}", plain_name(*items, text))
        }
        Type::Map(values) => format!("map[string]{}", plain_name(*values, text)),
    }
}

/// The fields of a structure in the order in which Go has them.
pub(super) fn field_order(
    package: Package,
    definition: &Definition,
) -> impl Iterator<Item = &'static str> + use<> {
    let own = ORDERS.iter().find(|(name, _)| *name == definition.name);
    let names = own.map_or_else(|| numbers::names(package, definition.name), |(_, names)| names);
    let type_meta: &[&str] = match definition.kind {
        DefinitionKind::Kind | DefinitionKind::Answer | DefinitionKind::Envelope => &["kind", "apiVersion"],
        _ => &[],
    };
    type_meta.iter().chain(names).copied().filter(|name| !name.is_empty())
}
