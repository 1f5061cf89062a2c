//! Secret values of a state.

use std::collections::BTreeSet;

use serde_json::{Value, value::RawValue};

#[derive(Default)]
pub(super) struct Secrets(BTreeSet<String>);

impl Secrets {
    pub(super) fn into_values(self) -> Vec<String> {
        self.0.into_iter().collect()
    }

    /// Every text and number in a value. Keys of maps are no secrets, nor are booleans and nulls.
    pub(super) fn all_of(&mut self, value: &Value) {
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => drop(self.0.insert(number.to_string())),
            Value::String(text) => {
                if !text.is_empty() {
                    self.0.insert(text.clone());
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.all_of(item)),
            Value::Object(fields) => fields.values().for_each(|field| self.all_of(field)),
        }
    }

    /// The values at the paths that an instance's `sensitive_attributes` list.
    pub(super) fn marked(
        &mut self,
        attributes: Option<&RawValue>,
        paths: &[Value],
    ) -> Result<(), serde_json::Error> {
        let (Some(attributes), false) = (attributes, paths.is_empty()) else { return Ok(()) };
        let attributes: Value = serde_json::from_str(attributes.get())?;
        for path in paths {
            let steps = path.as_array().map(Vec::as_slice).unwrap_or_default();
            self.at(&attributes, steps);
        }
        Ok(())
    }

    fn at(&mut self, value: &Value, steps: &[Value]) {
        let Some((step, rest)) = steps.split_first() else {
            return self.all_of(dynamic(value).unwrap_or(value));
        };
        let next = match step["type"].as_str() {
            Some("get_attr") => step["value"].as_str().map(|name| child(value, &Key::Name(name))),
            Some("index") => match &step["value"]["value"] {
                Value::String(name) => Some(child(value, &Key::Name(name))),
                Value::Number(number) => number.as_u64().map(|index| child(value, &Key::Index(index))),
                _ => None,
            },
            _ => None,
        };
        match next {
            Some(Some(next)) => self.at(next, rest),
            // The path leads to something that is null or gone.
            Some(None) => {}
            // A step of a kind not known: too much kept back is better than too little.
            None => self.all_of(value),
        }
    }
}

enum Key<'a> {
    Name(&'a str),
    Index(u64),
}

/// One step down, through the wrapping of a value of dynamic type where there is one.
fn child<'v>(value: &'v Value, key: &Key<'_>) -> Option<&'v Value> {
    let direct = |value: &'v Value| match key {
        Key::Name(name) => value.get(name),
        Key::Index(index) => value.get(usize::try_from(*index).ok()?),
    };
    // The wrapping first: a path never names it, and an attribute may be called `value` or `type`.
    dynamic(value).and_then(direct).or_else(|| direct(value))
}

/// A value of dynamic type is written as `{"value": …, "type": …}`, with a type such as `"string"` or `["list", "string"]`.
fn dynamic(value: &Value) -> Option<&Value> {
    let fields = value.as_object().filter(|fields| fields.len() == 2)?;
    let wrapped = match fields.get("type")? {
        Value::String(name) => matches!(name.as_str(), "string" | "number" | "bool" | "dynamic"),
        Value::Array(parts) => parts.first().is_some_and(Value::is_string),
        _ => false,
    };
    wrapped.then(|| fields.get("value")).flatten()
}
