//! The numbers of fields in protobuf, as `generated.proto` of Kubernetes 1.36 has them.
//!
//! Names are those of JSON, in the order of their numbers from 1 on; an empty one is a number nothing of ours has.
//! The types are those of the definitions.

use super::super::definitions::Package::{
    self, Apiextensions, Authentication, Authorization, Autoscaling, Coordination, Core, Events, Meta, Rbac,
};

// One line per message, however long.
#[rustfmt::skip]
const TABLE: &[(Package, &str, &[&str])] = &[
    (Core, "Namespace", &["metadata", "spec", "status"]),
    (Core, "NamespaceSpec", &["finalizers"]),
    (Core, "NamespaceStatus", &["phase", "conditions"]),
    (Core, "NamespaceCondition", &["type", "status", "", "lastTransitionTime", "reason", "message"]),
    (Core, "Secret", &["metadata", "data", "type", "stringData", "immutable"]),
    (Core, "ConfigMap", &["metadata", "data", "binaryData", "immutable"]),
    (Core, "ServiceAccount", &["metadata", "secrets", "imagePullSecrets", "automountServiceAccountToken"]),
    (Core, "Service", &["metadata", "spec", "status"]),
    (Core, "Event", &["metadata", "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "type", "eventTime", "series", "action", "related", "reportingComponent", "reportingInstance"]),
    (Core, "EventSeries", &["count", "lastObservedTime"]),
    (Core, "EventSource", &["component", "host"]),
    (Core, "ObjectReference", &["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"]),
    (Core, "LocalObjectReference", &["name"]),
    (Core, "Node", &["metadata", "spec", "status"]),
    (Core, "NodeSpec", &["podCIDR", "externalID", "providerID", "unschedulable", "taints", "configSource", "podCIDRs"]),
    (Core, "Taint", &["key", "value", "effect", "timeAdded"]),
    (Core, "NodeConfigSource", &["", "configMap"]),
    (Core, "ConfigMapNodeConfigSource", &["namespace", "name", "uid", "resourceVersion", "kubeletConfigKey"]),
    (Core, "NodeStatus", &["capacity", "allocatable", "phase", "conditions", "addresses", "daemonEndpoints", "nodeInfo", "images", "volumesInUse", "volumesAttached", "config", "runtimeHandlers", "features", "declaredFeatures"]),
    (Core, "NodeAddress", &["type", "address"]),
    (Core, "NodeCondition", &["type", "status", "lastHeartbeatTime", "lastTransitionTime", "reason", "message"]),
    (Core, "NodeConfigStatus", &["assigned", "active", "lastKnownGood", "error"]),
    (Core, "NodeDaemonEndpoints", &["kubeletEndpoint"]),
    (Core, "DaemonEndpoint", &["Port"]),
    (Core, "NodeFeatures", &["supplementalGroupsPolicy"]),
    (Core, "ContainerImage", &["names", "sizeBytes"]),
    (Core, "NodeSystemInfo", &["machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion", "kubeProxyVersion", "operatingSystem", "architecture", "swap"]),
    (Core, "NodeSwapStatus", &["capacity"]),
    (Core, "NodeRuntimeHandler", &["name", "features"]),
    (Core, "NodeRuntimeHandlerFeatures", &["recursiveReadOnlyMounts", "userNamespaces"]),
    (Core, "AttachedVolume", &["name", "devicePath"]),
    (Events, "Event", &["metadata", "eventTime", "series", "reportingController", "reportingInstance", "action", "reason", "regarding", "related", "note", "type", "deprecatedSource", "deprecatedFirstTimestamp", "deprecatedLastTimestamp", "deprecatedCount"]),
    (Events, "EventSeries", &["count", "lastObservedTime"]),
    (Coordination, "Lease", &["metadata", "spec"]),
    (Coordination, "LeaseSpec", &["holderIdentity", "leaseDurationSeconds", "acquireTime", "renewTime", "leaseTransitions", "strategy", "preferredHolder"]),
    (Rbac, "Role", &["metadata", "rules"]),
    (Rbac, "ClusterRole", &["metadata", "rules", "aggregationRule"]),
    (Rbac, "RoleBinding", &["metadata", "subjects", "roleRef"]),
    (Rbac, "ClusterRoleBinding", &["metadata", "subjects", "roleRef"]),
    (Rbac, "PolicyRule", &["verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs"]),
    (Rbac, "AggregationRule", &["clusterRoleSelectors"]),
    (Rbac, "RoleRef", &["apiGroup", "kind", "name"]),
    (Rbac, "Subject", &["kind", "apiGroup", "name", "namespace"]),
    (Authentication, "SelfSubjectReview", &["metadata", "status"]),
    (Authentication, "SelfSubjectReviewStatus", &["userInfo"]),
    (Authentication, "UserInfo", &["username", "uid", "groups", "extra"]),
    (Authorization, "SelfSubjectAccessReview", &["metadata", "spec", "status"]),
    (Authorization, "SelfSubjectAccessReviewSpec", &["resourceAttributes", "nonResourceAttributes"]),
    (Authorization, "ResourceAttributes", &["namespace", "verb", "group", "version", "resource", "subresource", "name", "fieldSelector", "labelSelector"]),
    (Authorization, "FieldSelectorAttributes", &["rawSelector", "requirements"]),
    (Authorization, "LabelSelectorAttributes", &["rawSelector", "requirements"]),
    (Authorization, "NonResourceAttributes", &["path", "verb"]),
    (Authorization, "SubjectAccessReviewStatus", &["allowed", "reason", "evaluationError", "denied"]),
    (Authorization, "SubjectAccessReview", &["metadata", "spec", "status"]),
    (Authorization, "LocalSubjectAccessReview", &["metadata", "spec", "status"]),
    (Authorization, "SubjectAccessReviewSpec", &["resourceAttributes", "nonResourceAttributes", "user", "groups", "extra", "uid"]),
    (Authorization, "SelfSubjectRulesReview", &["metadata", "spec", "status"]),
    (Authorization, "SelfSubjectRulesReviewSpec", &["namespace"]),
    (Authorization, "SubjectRulesReviewStatus", &["resourceRules", "nonResourceRules", "incomplete", "evaluationError"]),
    (Authorization, "NonResourceRule", &["verbs", "nonResourceURLs"]),
    (Authorization, "ResourceRule", &["verbs", "apiGroups", "resources", "resourceNames"]),
    (Autoscaling, "Scale", &["metadata", "spec", "status"]),
    (Autoscaling, "ScaleSpec", &["replicas"]),
    (Autoscaling, "ScaleStatus", &["replicas", "selector"]),
    (Apiextensions, "CustomResourceDefinition", &["metadata", "spec", "status"]),
    (Apiextensions, "CustomResourceDefinitionSpec", &["group", "", "names", "scope", "", "", "versions", "", "conversion", "preserveUnknownFields"]),
    (Apiextensions, "CustomResourceDefinitionNames", &["plural", "singular", "shortNames", "kind", "listKind", "categories"]),
    (Apiextensions, "CustomResourceDefinitionVersion", &["name", "served", "storage", "schema", "subresources", "additionalPrinterColumns", "deprecated", "deprecationWarning", "selectableFields"]),
    (Apiextensions, "CustomResourceColumnDefinition", &["name", "type", "format", "description", "priority", "jsonPath"]),
    (Apiextensions, "CustomResourceConversion", &["strategy", "webhook"]),
    (Apiextensions, "WebhookConversion", &["", "clientConfig", "conversionReviewVersions"]),
    (Apiextensions, "WebhookClientConfig", &["service", "caBundle", "url"]),
    (Apiextensions, "ServiceReference", &["namespace", "name", "path", "port"]),
    (Apiextensions, "CustomResourceValidation", &["openAPIV3Schema"]),
    (Apiextensions, "CustomResourceSubresources", &["status", "scale"]),
    (Apiextensions, "CustomResourceSubresourceScale", &["specReplicasPath", "statusReplicasPath", "labelSelectorPath"]),
    (Apiextensions, "SelectableField", &["jsonPath"]),
    (Apiextensions, "CustomResourceDefinitionStatus", &["conditions", "acceptedNames", "storedVersions", "observedGeneration"]),
    (Apiextensions, "CustomResourceDefinitionCondition", &["type", "status", "lastTransitionTime", "reason", "message", "observedGeneration"]),
    (Apiextensions, "JSONSchemaProps", &["id", "$schema", "$ref", "description", "type", "format", "title", "default", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "multipleOf", "enum", "maxProperties", "minProperties", "required", "items", "allOf", "oneOf", "anyOf", "not", "properties", "additionalProperties", "patternProperties", "dependencies", "additionalItems", "definitions", "externalDocs", "example", "nullable", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string", "x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-map-type", "x-kubernetes-validations"]),
    (Apiextensions, "ValidationRule", &["rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf"]),
    (Apiextensions, "ExternalDocumentation", &["description", "url"]),
    (Meta, "ObjectMeta", &["name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences", "finalizers", "", "", "managedFields"]),
    (Meta, "OwnerReference", &["kind", "", "name", "uid", "apiVersion", "controller", "blockOwnerDeletion"]),
    (Meta, "ManagedFieldsEntry", &["manager", "operation", "apiVersion", "time", "", "fieldsType", "fieldsV1", "subresource"]),
    (Meta, "LabelSelector", &["matchLabels", "matchExpressions"]),
    (Meta, "LabelSelectorRequirement", &["key", "operator", "values"]),
    (Meta, "FieldSelectorRequirement", &["key", "operator", "values"]),
    (Meta, "DeleteOptions", &["gracePeriodSeconds", "preconditions", "orphanDependents", "propagationPolicy", "dryRun", "ignoreStoreReadErrorWithClusterBreakingPotential"]),
    (Meta, "Preconditions", &["uid", "resourceVersion"]),
];

/// Names of the fields of a message; the first has number 1.
pub(in crate::builtin) fn names(package: Package, message: &str) -> &'static [&'static str] {
    let row = TABLE.iter().find(|(of, name, _)| *of == package && *name == message);
    row.map_or(&[], |(_, _, names)| names)
}

/// All messages with a number for every field.
#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = (Package, &'static str, &'static [&'static str])> {
    TABLE.iter().copied()
}
