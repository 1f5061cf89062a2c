//! Lines as they are printed: where in a line its parts are, read only where somebody wants them.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::Action;

/// A part of a line, not looked into yet. One that is of another type than whoever reads it expects is as good as missing.
#[derive(Clone, Copy, Default)]
pub(super) struct Field<'a>(Option<&'a RawValue>);

impl<'a> Field<'a> {
    pub fn read<T: Deserialize<'a>>(self) -> Option<T> {
        serde_json::from_str(self.0?.get()).ok()
    }

    /// A text, empty where there is none.
    pub fn text(self) -> String {
        self.read().unwrap_or_default()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Field<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        <&RawValue>::deserialize(from).map(|raw| Self(Some(raw)))
    }
}

/// An object of which some fields are known.
macro_rules! object {
    ($(#[$about:meta])* $name:ident { $($(#[$field_about:meta])* $field:ident),* $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Default, Deserialize)]
        #[serde(default)]
        pub(super) struct $name<'a> {
            $($(#[$field_about])* #[serde(borrow)] pub $field: Field<'a>,)*
        }
    };
}

object!(Line {
    #[serde(rename = "type")]
    kind,
    #[serde(rename = "@message")]
    message,
    terraform,
    tofu,
    hook,
    change,
    changes,
    outputs,
    diagnostic,
});
object!(Hook { resource, action, elapsed_seconds, output, id_value });
object!(Object { addr });
object!(Change { resource, action, reason, previous_resource, importing });
object!(Counts { operation, add, change, remove, import, forget });
object!(Diagnostic { severity, summary, detail, address, range, snippet });
object!(Range { filename, start });
object!(Position { line });
object!(Snippet { code, highlight_start_offset, values });
object!(Traversed { traversal });
object!(
    /// An output of a plan.
    Output { action }
);

impl<'a> Line<'a> {
    /// `None` for what is no JSON object.
    pub fn read(line: &'a str) -> Option<Self> {
        // An array would do for the fields in their order.
        if line.trim_ascii_start().starts_with('{') { serde_json::from_str(line).ok() } else { None }
    }
}

/// An object, whatever is in it.
#[derive(Deserialize)]
pub(super) struct Nothing {}

/// Outputs, counted one by one.
pub(super) struct OutputCount {
    pub changed: u32,
}

impl<'de> Deserialize<'de> for OutputCount {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Count;
        impl<'de> Visitor<'de> for Count {
            type Value = OutputCount;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("outputs by their names")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut outputs: A) -> Result<OutputCount, A::Error> {
                let mut changed = 0_u32;
                while let Some((IgnoredAny, output)) = outputs.next_entry::<IgnoredAny, Field<'de>>()? {
                    let action =
                        output.read::<Output<'_>>().and_then(|output| output.action.read::<String>());
                    if action.is_some_and(|action| Action::parse(&action) != Action::NoOp) {
                        changed = changed.saturating_add(1);
                    }
                }
                Ok(OutputCount { changed })
            }
        }
        from.deserialize_map(Count)
    }
}
