//! A second opinion on values: whoever gives them must not be able to add code to a text.
//!
//! The scanner knows little of HCL, and where it is wrong about a comment or a string, a value could end it. So the text is
//! parsed twice, with the values and with a plain word in their place: a value is a literal, so both have the same names of
//! blocks, arguments, references and functions, in the same order.

use std::collections::BTreeMap;
use std::str::FromStr as _;

use hcl_edit::visit::{Visit, visit_body, visit_template};
use hcl_edit::{Decorated, Ident, template::Template};

use super::super::hcl;
use super::{Format, substitute};
use crate::blocking::in_place;

/// The key whose value changes what a text means beyond the place where it stands. A text that cannot be read with plain values
/// is not judged: it says nothing of the values.
pub fn changed_by(text: &str, format: Format, values: &BTreeMap<String, String>) -> Option<String> {
    if !text.contains("${") {
        return None;
    }
    in_place(|| {
        // Words change nothing wherever they stand; each its own, so that no two members of an object become one.
        let plain: BTreeMap<String, String> =
            values.keys().enumerate().map(|(number, key)| (key.clone(), format!("x{number}"))).collect();
        let meant = names(&substitute(text, format, &plain), format)?;
        let differs = |values: &BTreeMap<String, String>| {
            names(&substitute(text, format, values), format).as_ref() != Some(&meant)
        };
        if !differs(values) {
            return None;
        }
        let alone = |key: &&String| {
            let mut one = plain.clone();
            one.insert((*key).clone(), values[*key].clone());
            differs(&one)
        };
        let mentioned = || values.keys().filter(|key| text.contains(&format!("${{{key}}}")));
        mentioned().find(alone).or_else(|| mentioned().next()).cloned()
    })
}

/// All names in a text, in order; nothing where it cannot be read.
fn names(text: &str, format: Format) -> Option<Vec<String>> {
    let mut found = Interpolated(Vec::new());
    match format {
        Format::Hcl => visit_body(&mut found, &hcl::parse(hcl::without_mark(text).0).ok()?),
        Format::Json => found.json(&serde_json::from_str(text).ok()?)?,
    }
    Some(found.0)
}

struct Interpolated(Vec<String>);

impl Interpolated {
    /// Of a module in JSON every string is a template.
    fn json(&mut self, value: &serde_json::Value) -> Option<()> {
        match value {
            serde_json::Value::String(text) => visit_template(self, &Template::from_str(text).ok()?),
            serde_json::Value::Array(items) => items.iter().try_for_each(|item| self.json(item))?,
            serde_json::Value::Object(members) => {
                self.0.push(members.len().to_string());
                members.values().try_for_each(|member| self.json(member))?;
            }
            _ => {}
        }
        Some(())
    }
}

impl Visit for Interpolated {
    fn visit_ident(&mut self, node: &Decorated<Ident>) {
        self.0.push(node.to_string());
    }
}
