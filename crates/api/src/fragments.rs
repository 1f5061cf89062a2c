//! Schema fragments that several kinds share: what a name, a label map, a percentage may be.
//!
//! Used through `#[schemars(schema_with = "…")]`. Every string and list has an upper bound, because the
//! API server refuses a rule whose worst-case cost it cannot bound.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::json;

/// Keeps a default out of the schema, for fields of list items: kubectl replaces lists as a whole, and would
/// find a difference in every default that the API server has filled in.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Name of a Kubernetes object.
pub(crate) fn object_name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "minLength": 1,
        "maxLength": 253,
        "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    })
}

/// Name of a namespace.
pub(crate) fn namespace(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "minLength": 1,
        "maxLength": 63,
        "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    })
}

/// An API group; empty for the core group.
pub(crate) fn group(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 253,
        "pattern": "^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    })
}

/// A kind.
pub(crate) fn kind(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "minLength": 1,
        "maxLength": 63,
        "pattern": "^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$",
    })
}

/// Name of a Kubernetes object in a template's text, where `${key}` stands for the value of a variable.
pub(crate) fn templated_name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "minLength": 1,
        "maxLength": 253,
        "x-kubernetes-validations": [{
            "rule": "self.matches('^([a-z0-9.-]|[$][{][A-Za-z_][A-Za-z0-9_-]*[}])+$')",
            "message": "a name has lower-case letters, digits, - and ., and may have ${key} for the value of a variable",
        }],
    })
}

/// Key in a Secret or ConfigMap.
pub(crate) fn data_key(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "minLength": 1,
        "maxLength": 253,
        "pattern": "^[-._a-zA-Z0-9]+$",
    })
}

/// Kubernetes labels: the values must be valid, or the object or node that gets them is refused.
pub(crate) fn labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": {
            "type": "string",
            "maxLength": 63,
            "pattern": "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
        },
        "x-kubernetes-validations": [{
            "rule": "self.all(k, size(k) <= 317 && k.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",
            "message": "a label key is a name of at most 63 characters, with or without a domain before it: role or example.com/role",
        }],
    })
}

/// Kubernetes annotations.
pub(crate) fn annotations(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": { "type": "string" },
    })
}

/// Cloud tags, within what every large cloud allows.
pub(crate) fn tags(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 50,
        "additionalProperties": { "type": "string", "maxLength": 256 },
        "x-kubernetes-validations": [{
            "rule": "self.all(k, size(k) >= 1 && size(k) <= 128)",
            "message": "a tag key has 1 to 128 characters",
        }],
    })
}

/// Any JSON value, kept as written.
pub(crate) fn any_value(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// An object of any members, kept as written.
pub(crate) fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// A map whose values may be any JSON, kept as written.
pub(crate) fn any_values(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 256,
        "additionalProperties": { "x-kubernetes-preserve-unknown-fields": true },
    })
}

/// A region: lower-case words joined by dashes (`eu-west-1`, `us-gov-west-1`, `europe-west4`).
pub(crate) fn region(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "minLength": 1,
        "maxLength": 63,
        "x-kubernetes-validations": [
            {
                "rule": "self.matches('^[a-z][a-z0-9]*(-[a-z0-9]+)*$')",
                "message": "a region is written in lower-case words joined by dashes, for example us-east-1 or us-gov-west-1",
            },
            {
                "rule": "!self.matches('^[a-z]+(-[a-z]+)+-[0-9]+[a-z]$')",
                "message": "this is an availability zone: write the region, without the last letter",
            },
        ],
    })
}

/// A Kubernetes version, with or without a leading v.
pub(crate) fn kubernetes_version(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "minLength": 1,
        "maxLength": 64,
        "x-kubernetes-validations": [{
            "rule": "self.matches('^v?[1-9][0-9]*[.][0-9]+([.][0-9]+)?([-+][0-9A-Za-z.+-]+)?$')",
            "message": "version is a Kubernetes version such as \"1.33\" or v1.33.2",
        }],
    })
}

/// Address blocks, each once.
pub(crate) fn cidrs(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 100,
        "x-kubernetes-list-type": "set",
        "items": {
            "type": "string",
            "maxLength": 64,
            "x-kubernetes-validations": [{
                "rule": "self.matches('^([0-9]{1,3}[.]){3}[0-9]{1,3}/([0-9]|[12][0-9]|3[0-2])$') || self.matches('^[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*/([0-9]|[1-9][0-9]|1[01][0-9]|12[0-8])$')",
                "message": "an address block is written like 203.0.113.0/24 or 2001:db8::/32",
            }],
        },
    })
}

/// Further arguments of `terraform init`. The engine has the same list, with reasons: `capt_terraform::inputs::allowed`.
pub(crate) fn init_arguments(_: &mut SchemaGenerator) -> Schema {
    arguments(
        "^--?((upgrade|reconfigure|no-color)(=(true|false))?|lock-timeout=([0-9]{1,8}ms|[0-9]{1,5}s|[0-9]{1,4}m|[0-9]{1,2}h)|backend-config=[A-Za-z_][A-Za-z0-9_.-]*=[^[:cntrl:]]*)$",
        "terraform init takes -upgrade, -reconfigure, -lock-timeout=60s, -backend-config=KEY=VALUE and -no-color, each as one item; modules, plugins and the state are named in their own fields",
    )
}

/// Further arguments of `terraform plan`, `apply` and `destroy`.
pub(crate) fn run_arguments(_: &mut SchemaGenerator) -> Schema {
    arguments(
        "^--?((compact-warnings|no-color)(=(true|false))?|refresh=(true|false)|parallelism=[1-9][0-9]{0,3}|lock-timeout=([0-9]{1,8}ms|[0-9]{1,5}s|[0-9]{1,4}m|[0-9]{1,2}h))$",
        "a run takes -parallelism=N, -refresh=false, -lock-timeout=60s, -compact-warnings and -no-color, each as one item; values go to vars, varmap or varFiles, the state to a WorkspaceProviderConfig",
    )
}

fn arguments(pattern: &str, message: &str) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 32,
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "string",
            "maxLength": 2048,
            "x-kubernetes-validations": [{ "rule": format!("self.matches('{pattern}')"), "message": message }],
        },
    })
}

/// Name of an environment variable of a run. The engine has the same list, with reasons: `capt_terraform::inputs::allowed`.
pub(crate) fn environment_name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "minLength": 1,
        "maxLength": 253,
        "pattern": "^[A-Za-z_][A-Za-z0-9_]*$",
        "x-kubernetes-validations": [
            {
                "rule": "!self.matches('^(TF|GIT)_') || self.matches('^(TF_(VAR|TOKEN|HTTP|CLOUD|REGISTRY)_|TF_LOG_PROVIDER|(TF_LOG|TF_LOG_CORE|TF_APPEND_USER_AGENT|GIT_TERMINAL_PROMPT)$)')",
                "message": "of Terraform's and git's own variables only TF_VAR_*, TF_TOKEN_*, TF_HTTP_*, TF_CLOUD_*, TF_REGISTRY_* and TF_LOG are allowed: the others change what a run means; arguments go to planArgs and the like",
            },
            {
                "rule": "!self.matches('^((TOFU|CAPT|CHECKPOINT|XDG|LD|DYLD|SSL_CERT|SSH|BASH|OPENSSL|GSS|KRB5)_|HG|PERL5|PYTHON|(TERRAFORM_CONFIG|PATH|HOME|TMPDIR|TMP|TEMP|PWD|GLIBC_TUNABLES|GCONV_PATH|RES_OPTIONS|LOCALDOMAIN|HOSTALIASES|GODEBUG|GOCOVERDIR|SHELL|SHELLOPTS|BASHOPTS|ENV|IFS|PS4)$)')",
                "message": "this variable belongs to CAPT, or makes programs load, run or trust something else: leave it out",
            },
        ],
    })
}

/// A machine size of some cloud (`t3.medium`, `n2-standard-4`, `Standard_D2s_v5`).
pub(crate) fn instance_type(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "minLength": 1,
        "maxLength": 63,
        "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]*$",
    })
}

/// Machine sizes, each once.
pub(crate) fn instance_types(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 64,
        "x-kubernetes-list-type": "set",
        "items": instance_type(generator),
    })
}

/// Whole numbers, each once.
pub(crate) fn numbers(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 1000,
        "x-kubernetes-list-type": "set",
        "items": { "type": "integer", "format": "int64", "minimum": 0 },
    })
}

/// Name of a node group in the cloud, within EKS's limits.
pub(crate) fn node_group_name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "minLength": 1,
        "maxLength": 63,
        "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]*$",
    })
}

/// A duration as Go and kubectl write it.
pub(crate) fn duration(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 32,
        "x-kubernetes-validations": [{
            "rule": "self.matches('^([0-9]+([.][0-9]+)?(h|m|s|ms))+$')",
            "message": "a duration is written like 90s, 15m or 1h30m",
        }],
    })
}

/// A count or a share of the replicas; `limit` is what the share may not exceed.
fn int_or_percent(limit: Option<u32>) -> Schema {
    let mut rules = vec![json!({
        "rule": "type(self) == int ? self >= 0 : self.matches('^[0-9]{1,6}%$')",
        "message": "write a whole number such as 1, or a percentage such as \"25%\"",
    })];
    if let Some(limit) = limit {
        rules.push(json!({
            "rule": format!("type(self) == int || !self.matches('^[0-9]{{1,6}}%$') || int(self.replace('%', '')) <= {limit}"),
            "message": format!("a percentage is at most {limit}%"),
        }));
    }
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "maxLength": 7,
        "x-kubernetes-validations": rules,
    })
}

/// A count or a percentage of any size.
pub(crate) fn int_or_any_percent(_: &mut SchemaGenerator) -> Schema {
    int_or_percent(None)
}

/// A count or a percentage up to 100.
pub(crate) fn int_or_share(_: &mut SchemaGenerator) -> Schema {
    int_or_percent(Some(100))
}

/// `metav1.Condition` as a map by type, so that two managers can each own a condition.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 32,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "description": "One aspect of the object's current state.",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": {
                    "type": "string",
                    "description": "Type of the condition, in CamelCase.",
                    "maxLength": 316,
                    "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                },
                "status": {
                    "type": "string",
                    "description": "True, False or Unknown.",
                    "enum": ["True", "False", "Unknown"],
                },
                "reason": {
                    "type": "string",
                    "description": "Machine-readable reason for the status, in CamelCase.",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "message": {
                    "type": "string",
                    "description": "Human-readable message.",
                    "maxLength": 32768,
                },
                "lastTransitionTime": {
                    "type": "string",
                    "format": "date-time",
                    "description": "Time of the last change of the status.",
                },
                "observedGeneration": {
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                    "description": "The metadata.generation that the condition was set for.",
                },
            },
        },
    })
}

/// A label selector, bounded so that it can be compared with the template's labels in a rule.
pub(crate) fn selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchLabels": {
                "type": "object",
                "description": "Labels that a machine must have, with these exact values.",
                "maxProperties": 64,
                "additionalProperties": { "type": "string", "maxLength": 63 },
            },
            "matchExpressions": {
                "type": "array",
                "description": "Further requirements; all must hold.",
                "maxItems": 16,
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": {
                            "type": "string",
                            "description": "Key of the label.",
                            "minLength": 1,
                            "maxLength": 317,
                        },
                        "operator": {
                            "type": "string",
                            "description": "Operator that relates the label to the values.",
                            "enum": ["In", "NotIn", "Exists", "DoesNotExist"],
                        },
                        "values": {
                            "type": "array",
                            "description": "Values for In and NotIn; left out for Exists and DoesNotExist.",
                            "maxItems": 64,
                            "x-kubernetes-list-type": "atomic",
                            "items": { "type": "string", "maxLength": 63 },
                        },
                    },
                    "x-kubernetes-validations": [{
                        "rule": "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
                        "message": "values are needed with In and NotIn, and have no meaning with Exists and DoesNotExist",
                    }],
                },
            },
        },
        "x-kubernetes-validations": [
            {
                "rule": "(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)",
                "message": "an empty selector would claim every machine of the namespace: write at least one label under matchLabels",
            },
            {
                "rule": "self == oldSelf",
                "message": "selector is immutable: machines that it no longer selects would be orphaned; create a new object instead",
            },
        ],
    })
}
