//! What a CRD's schema may not say although it is structural: keywords Kubernetes lacks,
//! extensions that contradict each other, rules without content.

use serde_json::Value;

use crate::cel::report::{Report, Site};
use crate::compile::field_path;
use crate::compile::raw::{Items, Props, RawAdditional, RawRule};
use crate::error::FieldError;
use crate::node::{Kind, Node, is_type_or_object_meta};
use crate::path::FieldPath;
use crate::validate::errors::Errors;

/// The reasons a rule may give.
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// The context on the way down.
#[derive(Clone, Default)]
struct Context {
    /// Why a default is not allowed here, if it is not.
    no_defaults: Option<String>,
    inside_metadata: bool,
    /// The highest schema above whose parts cannot be told apart across an update.
    uncorrelatable: Option<FieldPath>,
    /// The maximal number of values of this schema in an object, if bounded.
    cardinality: Option<u64>,
}

/// Schema errors, then those of rules. `node` is the compiled schema, if it could be compiled
/// and its defaults are right; without it, rules are not checked.
pub(crate) fn check(root: &Props, node: Option<&Node>) -> Vec<FieldError> {
    let mut walk = Walk { schema: Errors::default(), rules: Report::default() };
    let context = Context { cardinality: Some(1), ..Context::default() };
    walk.visit(root, node, &FieldPath::root(), &context);
    let (rules, sum) = walk.rules.finish();
    walk.schema.into_inner().into_iter().chain(rules).chain(sum).collect()
}

/// The maximal number of children of one kind of a value of this schema, if bounded.
fn max_children(props: &Props) -> Option<u64> {
    let bound = match props.kind.as_str() {
        "object" if props.additional_properties.is_some() => props.max_properties,
        "array" => props.max_items,
        _ => Some(1),
    };
    bound.map(|bound| u64::try_from(bound).unwrap_or(0))
}

struct Walk {
    schema: Errors,
    rules: Report,
}

impl Walk {
    fn visit(&mut self, props: &Props, node: Option<&Node>, path: &FieldPath, context: &Context) {
        if self.schema.is_enough() {
            return;
        }
        let before = self.schema.len();
        self.keywords(props, path, context);
        self.children(props, node, path, context);
        self.extensions(props, path);
        self.list_map(props, path);
        self.list_items(props, path);
        for (i, rule) in props.validations.iter().enumerate() {
            self.rule(rule, node, &path.field("x-kubernetes-validations").index(i));
        }
        // A rule cannot be checked before its schema is valid.
        if self.schema.len() == before
            && let Some(node) = node
        {
            let site = Site {
                path,
                uncorrelatable: context.uncorrelatable.as_ref(),
                cardinality: context.cardinality,
            };
            self.rules.rules(node, &site);
        }
    }

    fn forbid(&mut self, path: &FieldPath, keyword: &str, detail: impl Into<String>) {
        self.schema.push(FieldError::forbidden(&path.field(keyword), detail));
    }

    fn keywords(&mut self, props: &Props, path: &FieldPath, context: &Context) {
        if !props.kind.is_empty() && Kind::parse(&props.kind).is_none() {
            let names: Vec<String> = Kind::ALL.iter().map(|kind| kind.name().to_owned()).collect();
            self.schema.push(FieldError::not_supported(
                &path.field("type"),
                Value::from(props.kind.as_str()),
                &names,
            ));
        }
        if props.default.is_some()
            && let Some(reason) = &context.no_defaults
        {
            self.forbid(path, "default", format!("must not be set {reason}"));
        }
        for keyword in &props.unsupported {
            self.forbid(path, keyword, format!("{keyword} is not supported"));
        }
        if props.kind == "null" {
            self.forbid(path, "type", "type cannot be set to null, use nullable as an alternative");
        }
        if matches!(props.items, Some(Items::Tuple)) {
            self.forbid(path, "items", "items must be a schema object and not an array");
        }
        if context.inside_metadata && props.embedded_resource {
            self.forbid(path, "x-kubernetes-embedded-resource", "must not be used inside of resource meta");
        }
        if props.unique_items {
            self.forbid(
                path,
                "uniqueItems",
                "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            );
        }
        let exclusive = !matches!(props.additional_properties, None | Some(RawAdditional::Allowed(true)));
        if exclusive && !props.properties.is_empty() {
            self.forbid(
                path,
                "additionalProperties",
                "additionalProperties and properties are mutual exclusive",
            );
        }
    }

    fn children(&mut self, props: &Props, node: Option<&Node>, path: &FieldPath, context: &Context) {
        let cardinality =
            context.cardinality.and_then(|above| Some(above.saturating_mul(max_children(props)?)));
        let inherited = Context { cardinality, ..context.clone() };
        if let Some(schema) = props.additional_schema() {
            let mut context = inherited.clone();
            if context.inside_metadata {
                context.no_defaults =
                    Some("inside additionalProperties applying to object metadata".to_owned());
            }
            let node = node.and_then(Node::additional_schema);
            self.visit(schema, node, &path.field("additionalProperties"), &context);
        }
        for (name, schema) in &props.properties {
            let mut context = inherited.clone();
            let known_map_type = matches!(props.map_type.as_deref(), None | Some("granular" | "atomic"));
            if !known_map_type {
                context.uncorrelatable.get_or_insert_with(|| path.clone());
            }
            let is_root = path.is_root();
            if (is_root || props.embedded_resource) && is_type_or_object_meta(name) {
                context.inside_metadata = true;
                if is_root {
                    context.no_defaults = Some(format!("in top-level {name}"));
                }
            }
            let node = node.and_then(|node| node.properties.get(name).map(Box::as_ref));
            self.visit(schema, node, &path.field("properties").key(name), &context);
        }
        for (keyword, schemas) in
            [("allOf", &props.all_of), ("oneOf", &props.one_of), ("anyOf", &props.any_of)]
        {
            for (i, schema) in schemas.iter().enumerate() {
                self.visit(schema, None, &path.field(keyword).index(i), &inherited);
            }
        }
        if let Some(schema) = &props.not {
            self.visit(schema, None, &path.field("not"), &inherited);
        }
        if let Some(items) = props.items_schema() {
            let mut context = inherited;
            if props.list_type.as_deref() != Some("map") {
                context.uncorrelatable.get_or_insert_with(|| path.clone());
            }
            let node = node.and_then(|node| node.items.as_deref());
            self.visit(items, node, &path.field("items"), &context);
        }
    }

    fn extensions(&mut self, props: &Props, path: &FieldPath) {
        if props.preserve_unknown == Some(false) {
            self.schema.push(FieldError::invalid(
                &path.field("x-kubernetes-preserve-unknown-fields"),
                false,
                "must be true or undefined",
            ));
        }
        self.topology(
            props,
            path,
            props.map_type.as_deref(),
            "x-kubernetes-map-type",
            "object",
            &["atomic", "granular"],
        );
        self.topology(
            props,
            path,
            props.list_type.as_deref(),
            "x-kubernetes-list-type",
            "array",
            &["atomic", "set", "map"],
        );
        if !props.list_map_keys.is_empty() {
            const DETAIL: &str = "must be map if x-kubernetes-list-map-keys is non-empty";
            let path = path.field("x-kubernetes-list-type");
            match props.list_type.as_deref() {
                None => self.schema.push(FieldError::required(&path, DETAIL)),
                Some("map") => {}
                Some(other) => self.schema.push(FieldError::invalid(&path, other, DETAIL)),
            }
        }
    }

    fn topology(
        &mut self,
        props: &Props,
        path: &FieldPath,
        value: Option<&str>,
        keyword: &str,
        kind: &str,
        supported: &[&str],
    ) {
        let Some(value) = value else { return };
        if props.kind != kind {
            let detail = format!("must be {kind} if {keyword} is specified");
            let path = path.field("type");
            self.schema.push(if props.kind.is_empty() {
                FieldError::required(&path, detail)
            } else {
                FieldError::invalid(&path, props.kind.as_str(), detail)
            });
        } else if value == "set"
            && let Some(items) = props.items_schema()
        {
            self.set_items(items, &path.field("items"));
        }
        if !supported.contains(&value) {
            let supported: Vec<String> = supported.iter().map(|&name| name.to_owned()).collect();
            self.schema.push(FieldError::not_supported(&path.field(keyword), Value::from(value), &supported));
        }
    }

    /// The elements of a set are compared whole, so they must be owned whole.
    fn set_items(&mut self, items: &Props, path: &FieldPath) {
        const DETAIL: &str = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let value = items.list_type.as_deref().map_or(Value::Null, Value::from);
        let keyword = match items.kind.as_str() {
            "array" if items.list_type.as_deref().is_some_and(|list_type| list_type != "atomic") => {
                "x-kubernetes-list-type"
            }
            "object" if items.map_type.as_deref() != Some("atomic") => "x-kubernetes-map-type",
            _ => return,
        };
        self.schema.push(FieldError::invalid(&path.field(keyword), value, DETAIL));
    }

    fn list_map(&mut self, props: &Props, path: &FieldPath) {
        if props.list_type.as_deref() != Some("map") {
            return;
        }
        let keys_path = path.field("x-kubernetes-list-map-keys");
        if props.list_map_keys.is_empty() {
            self.schema
                .push(FieldError::required(&keys_path, "must not be empty if x-kubernetes-list-type is map"));
        }
        if props.items.is_none() {
            self.schema.push(FieldError::required(
                &path.field("items"),
                "must have a schema if x-kubernetes-list-type is map",
            ));
        }
        let Some(items) = props.items_schema() else { return };
        let items_path = path.field("items");
        if items.kind != "object" {
            self.schema.push(FieldError::invalid(
                &items_path.field("type"),
                items.kind.as_str(),
                "must be object if parent array's x-kubernetes-list-type is map",
            ));
            return;
        }
        let keys = Value::from(props.list_map_keys.clone());
        for (i, key) in props.list_map_keys.iter().enumerate() {
            match items.properties.get(key) {
                Some(property) if matches!(property.kind.as_str(), "array" | "object") => {
                    self.schema.push(FieldError::invalid(
                        &items_path.field("properties").key(key).field("type"),
                        items.kind.as_str(),
                        "must be a scalar type if parent array's x-kubernetes-list-type is map",
                    ));
                }
                Some(_) => {}
                None => self.schema.push(FieldError::invalid(
                    &keys_path,
                    keys.clone(),
                    "entries must all be names of item properties",
                )),
            }
            if props.list_map_keys[..i].contains(key) {
                self.schema.push(FieldError::invalid(
                    &keys_path,
                    keys.clone(),
                    "must not contain duplicate entries",
                ));
            }
        }
    }

    /// The elements of a set or map must have an identity.
    fn list_items(&mut self, props: &Props, path: &FieldPath) {
        let (Some(items), Some(list_type @ ("set" | "map"))) =
            (props.items_schema(), props.list_type.as_deref())
        else {
            return;
        };
        let path = path.field("items");
        if items.nullable {
            self.forbid(
                &path,
                "nullable",
                format!("cannot be nullable when x-kubernetes-list-type is {list_type}"),
            );
        }
        if list_type != "map" {
            return;
        }
        for key in &props.list_map_keys {
            let Some(property) = items.properties.get(key) else { continue };
            let path = path.field("properties").key(key);
            if !items.required.contains(key) && property.default.is_none() {
                self.schema.push(FieldError::required(
                    &path.field("default"),
                    "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
                ));
            }
            if property.nullable {
                self.forbid(
                    &path,
                    "nullable",
                    "this property is in x-kubernetes-list-map-keys, so it cannot be nullable",
                );
            }
        }
    }

    fn rule(&mut self, rule: &RawRule, node: Option<&Node>, path: &FieldPath) {
        let has_newline = |text: &str| text.contains(['\n', '\r']);
        let message = rule.message.trim();
        if rule.rule.trim().is_empty() {
            self.schema.push(FieldError::required(&path.field("rule"), "rule is not specified"));
        } else if !rule.message.is_empty() && message.is_empty() {
            self.schema.push(FieldError::invalid(
                &path.field("message"),
                rule.message.as_str(),
                "must be non-empty if specified",
            ));
        } else if has_newline(message) {
            self.schema.push(FieldError::invalid(
                &path.field("message"),
                rule.message.as_str(),
                "must not contain line breaks",
            ));
        } else if has_newline(rule.rule.trim()) && message.is_empty() {
            self.schema.push(FieldError::required(
                &path.field("message"),
                "message must be specified if rule contains line breaks",
            ));
        }
        if !rule.message_expression.is_empty() && rule.message_expression.trim().is_empty() {
            self.schema.push(FieldError::required(
                &path.field("messageExpression"),
                "messageExpression must be non-empty if specified",
            ));
        }
        if let Some(reason) = rule.reason.as_deref().filter(|reason| !REASONS.contains(reason)) {
            let supported = REASONS.map(str::to_owned);
            self.schema.push(FieldError::not_supported(
                &path.field("reason"),
                Value::from(reason),
                &supported,
            ));
        }
        let field_path = path.field("fieldPath");
        if !rule.field_path.is_empty() && rule.field_path.trim().is_empty() {
            let detail = "must be non-empty if specified";
            self.schema.push(FieldError::invalid(&field_path, rule.field_path.as_str(), detail));
        }
        if has_newline(&rule.field_path) {
            let detail = "must not contain line breaks";
            self.schema.push(FieldError::invalid(&field_path, rule.field_path.as_str(), detail));
        }
        if node.is_some_and(|node| field_path::parse(&rule.field_path, node).is_none()) {
            let detail = "must be a valid path";
            self.schema.push(FieldError::invalid(&field_path, rule.field_path.as_str(), detail));
        }
    }
}
