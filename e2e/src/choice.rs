//! Which API a suite runs on.
//!
//! A suite that talks to an API runs on each that it knows and the machine has; `CAPT_TEST_API=NAME` picks one.

use std::env;

/// Whether a suite should run on the API called `name`, for example `kube-apiserver`.
pub fn runs_on(name: &str) -> bool {
    chosen(env::var("CAPT_TEST_API").ok().as_deref(), name)
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
