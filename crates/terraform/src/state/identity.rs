//! The id of an object as streams tell it: its `id`, or what comes nearest to a name of it.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// Attributes that Terraform takes for the id of an object, in this order.
#[derive(Deserialize)]
struct Named<'a> {
    #[serde(default, borrow)]
    id: Option<&'a RawValue>,
    #[serde(default, borrow)]
    name: Option<&'a RawValue>,
    #[serde(default, borrow)]
    tags: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Tags<'a> {
    #[serde(default, borrow)]
    name: Option<&'a RawValue>,
    #[serde(default, borrow, rename = "Name")]
    capital: Option<&'a RawValue>,
}

/// `None` where the attributes have none that is a text.
pub(super) fn of(attributes: &RawValue) -> Option<String> {
    let named: Named<'_> = object(attributes)?;
    let tags = || object::<Tags<'_>>(named.tags?);
    text(named.id).or_else(|| text(named.name)).or_else(|| {
        let tags = tags()?;
        text(tags.name).or_else(|| text(tags.capital))
    })
}

/// A list would do for the fields in their order.
fn object<'a, T: Deserialize<'a>>(value: &'a RawValue) -> Option<T> {
    let text = value.get();
    if text.starts_with('{') { serde_json::from_str(text).ok() } else { None }
}

fn text(value: Option<&RawValue>) -> Option<String> {
    serde_json::from_str::<Cow<'_, str>>(value?.get()).ok().map(Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_streams_call_an_id() {
        let rows = [
            (r#"{"a":1,"id":"i-1","name":"n"}"#, Some("i-1")),
            (r#"{"id":null,"name":"n","tags":{"Name":"t"}}"#, Some("n")),
            (r#"{"id":7,"tags":{"Name":"T"}}"#, Some("T")),
            (r#"{"tags":{"Name":"T","name":"t"}}"#, Some("t")),
            (r#"{"id":"a\u0022b"}"#, Some("a\"b")),
            (r#"{"tags":["Name"]}"#, None),
            ("{}", None),
            ("null", None),
        ];
        for (attributes, id) in rows {
            let raw: &RawValue = serde_json::from_str(attributes).expect("JSON");
            assert_eq!(of(raw).as_deref(), id, "{attributes}");
        }
    }
}
