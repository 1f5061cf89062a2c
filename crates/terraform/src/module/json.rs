//! Modules written in JSON. There a block is an object, and a list of objects is the same block several times.

use std::{collections::BTreeSet, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::Value;

use super::{BackendBlock, Collector, Declaration, Problem, hcl::without_mark};

pub(super) fn collect(text: &str, to: &mut Collector) -> Result<(), Problem> {
    let (text, _) = without_mark(text);
    let module: Value = serde_json::from_str(text).map_err(|error| Problem {
        message: error.to_string(),
        file: None,
        line: u32::try_from(error.line()).ok(),
        column: u32::try_from(error.column()).ok(),
    })?;
    // Of a key that is there twice, what is read here is the last alone, and Terraform takes both.
    if serde_json::from_str::<Keys>(text).is_ok_and(|keys| keys.twice) {
        return Err(Problem {
            message: "a key is there twice".to_owned(),
            file: None,
            line: None,
            column: None,
        });
    }
    if !module.is_object() && !module.is_array() {
        return Err(Problem {
            message: "not a JSON object".to_owned(),
            file: None,
            line: None,
            column: None,
        });
    }
    for (kind, value) in members(&module) {
        top(kind, value, to);
    }
    Ok(())
}

/// The keys of an object.
struct Keys {
    twice: bool,
}

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Keys;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
                let (mut seen, mut twice) = (BTreeSet::new(), false);
                while let Some((key, _)) = map.next_entry::<String, IgnoredAny>()? {
                    twice |= !seen.insert(key);
                }
                Ok(Keys { twice })
            }
        }

        from.deserialize_map(Reader)
    }
}

fn top(kind: &str, value: &Value, to: &mut Collector) {
    match kind {
        "variable" => {
            for (name, body) in members(value) {
                to.declared.variables.insert(name.to_owned(), variable(body));
            }
        }
        "output" => {
            for (name, body) in members(value) {
                to.declared.outputs.insert(name.to_owned(), flag(body, "sensitive").unwrap_or(false));
            }
        }
        "terraform" => bodies(value).for_each(|body| settings(body, to)),
        "provider" => {
            for (name, value) in members(value) {
                bodies(value).for_each(|body| to.configures(name, body["alias"].as_str()));
            }
        }
        "resource" | "data" | "ephemeral" => objects(value, to),
        "check" => {
            for (_, check) in members(value) {
                bodies(check).for_each(|body| objects(&body["data"], to));
            }
        }
        "import" => bodies(value).for_each(|body| match body["to"].as_str().map(reference) {
            Some("module") => {}
            Some(kind) => to.object(kind, provider_of(body)),
            None => to.unknown_block(),
        }),
        "module" => members(value).for_each(|_| to.calls_module()),
        "locals" | "moved" | "removed" | "//" => {}
        _ => to.unknown_block(),
    }
}

/// Type, then name, then body.
fn objects(value: &Value, to: &mut Collector) {
    for (kind, named) in members(value) {
        for (_, value) in members(named) {
            bodies(value).for_each(|body| to.object(kind, provider_of(body)));
        }
    }
}

fn variable(body: &Value) -> Declaration {
    Declaration {
        required: body.get("default").is_none(),
        sensitive: flag(body, "sensitive").unwrap_or(false),
        ephemeral: flag(body, "ephemeral").unwrap_or(false),
        nullable: flag(body, "nullable").unwrap_or(true),
        type_text: body["type"].as_str().map(str::to_owned),
    }
}

fn settings(body: &Value, to: &mut Collector) {
    for (kind, value) in members(body) {
        match kind {
            "required_version" => {
                if let Some(constraint) = value.as_str() {
                    to.requires_version(constraint);
                }
            }
            "required_providers" => {
                for (name, requirement) in members(value) {
                    to.requires(name, requirement["source"].as_str());
                }
            }
            "backend" => members(value).for_each(|(kind, body)| to.has_backend(backend(kind, body))),
            "cloud" => to.has_cloud(None),
            "encryption" => to.has_encryption(None),
            "//" => {}
            _ => to.unknown_block(),
        }
    }
}

fn backend(kind: &str, body: &Value) -> BackendBlock {
    // A text with a template in it is computed.
    let literal = |value: &Value| match value {
        Value::String(text) if text.contains("${") || text.contains("%{") => None,
        Value::Object(_) | Value::Array(_) => None,
        value => Some(value.clone()),
    };
    let settings = members(body).filter(|(name, _)| *name != "//");
    BackendBlock {
        kind: kind.to_owned(),
        text: body.to_string(),
        settings: settings.map(|(name, value)| (name.to_owned(), literal(value))).collect(),
    }
}

fn provider_of(body: &Value) -> Option<&str> {
    body["provider"].as_str().map(reference)
}

/// The first name of a reference, which may stand in a template.
fn reference(text: &str) -> &str {
    let text = text.trim().trim_start_matches("${").trim_start();
    text.split(['.', '[', '}', ' ']).next().unwrap_or(text)
}

fn flag(body: &Value, name: &str) -> Option<bool> {
    let value = &body[name];
    value.as_bool().or_else(|| value.as_str()?.parse().ok())
}

/// The members of an object, or of every object in a list.
fn members(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    bodies(value).filter_map(Value::as_object).flatten().map(|(name, value)| (name.as_str(), value))
}

fn bodies(value: &Value) -> impl Iterator<Item = &Value> {
    match value {
        Value::Array(items) => items.as_slice(),
        other => std::slice::from_ref(other),
    }
    .iter()
    .filter(|body| body.is_object())
}
