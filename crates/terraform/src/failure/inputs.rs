//! Failures of inputs: which variable, and what is wrong with its value.
//!
//! Terraform speaks of its command line and of files that CAPT generates. Here they begin with `variable "NAME"`, which whoever
//! knows where the value came from can replace by that place.

use super::Reason;
use crate::stream::Diagnostic;

/// The variable that an error is about.
pub(super) fn variable(error: &Diagnostic, reason: Reason) -> Option<String> {
    match reason {
        Reason::MissingVariable => between(&error.detail, "variable \"", "\"").map(str::to_owned),
        Reason::InvalidVariable => named(&error.detail)
            .or(error.variable.as_deref())
            .filter(|name| !name.is_empty())
            .map(str::to_owned),
        _ => None,
    }
}

/// Describes the mistake in a sentence that begins with the variable; `None` if Terraform says something unknown.
pub(super) fn sentence(error: &Diagnostic, reason: Reason) -> Option<String> {
    let name = variable(error, reason)?;
    let subject = subject(&name);
    if reason == Reason::MissingVariable {
        return Some(format!("{subject} is not set, and the module has no default for it"));
    }
    let detail = error.detail.split("\n\n").next().unwrap_or_default();
    let wrong = match named(detail) {
        // `… for var.NAME declared at main.tf:1,1-13: a number is required.`
        Some(_) => detail.split_once("var.")?.1.split_once(": ")?.1,
        // The words of a validation rule.
        None => detail,
    };
    let wrong = super::message::words(wrong);
    Some(format!("{subject}: {}", wrong.strip_suffix('.').unwrap_or(&wrong)))
}

/// Start of a message about a variable.
pub(super) fn subject(name: &str) -> String {
    format!("variable \"{name}\"")
}

/// The variable in `suitable for var.NAME`.
fn named(detail: &str) -> Option<&str> {
    let after = detail.split_once("uitable")?.1.split_once(" var.")?.1;
    let end = after.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-'))).unwrap_or(after.len());
    Some(&after[..end])
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    Some(text.split_once(start)?.1.split_once(end)?.0)
}

/// Names of values that the module declares no variable for, from the warnings of a run.
pub(crate) fn undeclared(warnings: &[Diagnostic]) -> Vec<String> {
    let of = warnings.iter().filter(|warning| warning.summary == "Value for undeclared variable");
    let mut names: Vec<String> =
        of.filter_map(|warning| between(&warning.detail, "named \"", "\"").map(str::to_owned)).collect();
    names.sort();
    names.dedup();
    names
}
