//! Kinds and their fields, from the CRDs.

use std::fmt::Write;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

use super::plain;

pub fn page() -> String {
    let mut text = String::from(
        "<!-- Made by `make docs` from the CRDs: edit the texts beside the fields in crates/api. -->\n\n# API\n\n\
        Every kind is namespaced. \\* marks fields that are required. `kubectl explain` shows the same on any API.\n\n",
    );
    let mut all = capt_api::crds();
    all.push(capt_api::crd::cluster_kind().crd);
    for crd in &all {
        let kind = &crd.spec.names.kind;
        let _ = writeln!(text, "- [{kind}](#{})", kind.to_lowercase());
    }
    for crd in &all {
        // Writing to a String cannot fail.
        let _ = write_kind(&mut text, crd);
    }
    text
}

fn write_kind(text: &mut String, crd: &CustomResourceDefinition) -> std::fmt::Result {
    let (names, version) = (&crd.spec.names, &crd.spec.versions[0]);
    writeln!(text, "\n## {}\n", names.kind)?;
    let Some(schema) = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref()) else {
        return Ok(());
    };
    writeln!(text, "{}\n", plain(schema.description.as_deref().unwrap_or_default()))?;
    let short: Vec<String> =
        names.short_names.iter().flatten().map(|name| format!(", short `{name}`")).collect();
    writeln!(text, "`{}/{}`, `{}`{}\n", crd.spec.group, version.name, names.plural, short.join(""))?;
    writeln!(text, "| Field | Type | Description |\n|---|---|---|")?;
    let mut rules = Vec::new();
    collect_rules("", schema, &mut rules);
    for part in ["spec", "status"] {
        if let Some(below) = schema.properties.as_ref().and_then(|all| all.get(part)) {
            write_fields(text, part, below, &mut rules)?;
        }
    }
    if !rules.is_empty() {
        writeln!(text, "\nRules:\n")?;
    }
    for (path, message) in rules {
        let place = if path.is_empty() { String::new() } else { format!("`{path}`: ") };
        writeln!(text, "- {place}{}", plain(&message))?;
    }
    Ok(())
}

/// The fields of an object, each before what is in it.
fn write_fields(
    text: &mut String,
    path: &str,
    schema: &JSONSchemaProps,
    rules: &mut Vec<(String, String)>,
) -> std::fmt::Result {
    collect_rules(path, schema, rules);
    for (name, field) in schema.properties.iter().flatten() {
        let required = schema.required.iter().flatten().any(|required| required == name);
        let path = format!("{path}.{name}");
        let mut words = plain(field.description.as_deref().unwrap_or_default()).replace("\n\n", "<br>");
        if let Some(default) = &field.default {
            let _ = write!(words, " Default: `{}`.", default.0);
        }
        let mark = if required { " \\*" } else { "" };
        writeln!(text, "| `{path}`{mark} | {} | {words} |", kind_of(field))?;
        // Every condition is Kubernetes' own type.
        if name != "conditions" {
            write_below(text, &path, field, rules)?;
        }
    }
    Ok(())
}

/// Writes the fields of the items of a list or a map, too.
fn write_below(
    text: &mut String,
    path: &str,
    field: &JSONSchemaProps,
    rules: &mut Vec<(String, String)>,
) -> std::fmt::Result {
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &field.items {
        return write_fields(text, &format!("{path}[]"), items, rules);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &field.additional_properties {
        return write_fields(text, &format!("{path}.KEY"), values, rules);
    }
    write_fields(text, path, field, rules)
}

fn collect_rules(path: &str, schema: &JSONSchemaProps, rules: &mut Vec<(String, String)>) {
    for rule in schema.x_kubernetes_validations.iter().flatten() {
        let place = format!("{path}{}", rule.field_path.as_deref().unwrap_or_default());
        rules.push((place.trim_start_matches('.').to_owned(), rule.message.clone().unwrap_or_default()));
    }
}

/// The type of a field, with the values that it may have.
fn kind_of(field: &JSONSchemaProps) -> String {
    if let Some(values) = field.enum_.as_ref().filter(|values| !values.is_empty()) {
        let values: Vec<String> = values.iter().map(|value| format!("`{}`", value.0)).collect();
        return values.join(", ").replace('"', "");
    }
    if field.x_kubernetes_int_or_string == Some(true) {
        return "integer or string".to_owned();
    }
    match (field.type_.as_deref(), &field.items, &field.additional_properties) {
        (Some("array"), Some(JSONSchemaPropsOrArray::Schema(items)), _) => {
            format!("list of {}", kind_of(items))
        }
        (Some("object"), _, Some(JSONSchemaPropsOrBool::Schema(values))) => {
            format!("map of {}", kind_of(values))
        }
        (Some(kind), _, _) => kind.to_owned(),
        (None, _, _) => "any".to_owned(),
    }
}
