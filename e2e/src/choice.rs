//! What a suite runs on.
//!
//! A suite that talks to an API runs on each that it knows and the machine has, on a kube-apiserver in `make e2e` alone;
//! `CAPT_TEST_API=NAME` picks one. One that needs Terraform or OpenTofu runs where either is.

use std::env;

use crate::peers::required;

/// Whether a suite should run on the API called `name`, for example `kube-apiserver`.
pub fn runs_on(name: &str) -> bool {
    chosen(env::var("CAPT_TEST_API").ok().as_deref(), name)
}

/// Whether somebody picked the API called `name`.
pub(crate) fn picks(name: &str) -> bool {
    env::var("CAPT_TEST_API").is_ok_and(|choice| choice == name)
}

/// Whether Terraform or OpenTofu is on the PATH; says so where neither is, and panics where none may be missing.
pub fn has_terraform() -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path)
        .any(|folder| folder.join("terraform").is_file() || folder.join("tofu").is_file());
    assert!(found || !required(), "neither tofu nor terraform is on PATH");
    if !found {
        crate::skip("neither tofu nor terraform is on PATH (make tools)");
    }
    found
}

fn chosen(choice: Option<&str>, name: &str) -> bool {
    choice.is_none_or(|choice| choice.is_empty() || choice == name)
}

#[cfg(test)]
mod tests {
    use super::chosen;

    #[test]
    fn no_choice_is_every_api() {
        let rows = [(None, true), (Some(""), true), (Some("kube-apiserver"), true), (Some("offline"), false)];
        for (choice, expected) in rows {
            assert_eq!(chosen(choice, "kube-apiserver"), expected, "{choice:?}");
        }
    }
}
