//! Revisions: equal where nothing needs to be run.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Backend, Inputs};
use crate::hash::sha256;

/// A hash of all that decides what Terraform does.
///
/// Left out on purpose: where plugins are, the version constraint, and the *values* of credentials (sensitive environment,
/// files). A mirror that moved and a token that was renewed ask for no run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(String);

impl Revision {
    /// The revision of inputs as `binary` (`tofu` or `terraform`) runs them; `content` stands for a module that lies in a folder.
    pub fn of(inputs: &Inputs, binary: &str, content: Option<&str>) -> Self {
        let Inputs {
            origin: _,
            lent: _,
            module,
            variables,
            var_files,
            configuration,
            backend,
            workspace,
            env,
            files,
            binary: _,
            plugins: _,
            args,
        } = inputs;
        let env: Vec<(&String, Option<&String>)> =
            env.iter().map(|(name, value)| (name, (!value.sensitive).then_some(&value.value))).collect();
        let backend = match backend {
            Backend::Local => None,
            Backend::Hcl(text) => Some(text),
        };
        let mut all = json!({
            "module": module, "variables": variables, "varFiles": var_files, "configuration": configuration,
            "backend": backend, "env": env, "files": files.keys().collect::<Vec<_>>(), "args": args,
            "binary": binary, "content": content,
        });
        // Of those that select none the revision stays what it was before there was a choice.
        if let Some(workspace) = workspace {
            all["workspace"] = Value::from(workspace.as_str());
        }
        Self(sha256([canonical(&all).as_bytes()])[..16].to_owned())
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// JSON with sorted keys: an object has no order, so neither has its hash.
pub(crate) fn canonical(value: &Value) -> String {
    fn sorted(value: &Value) -> Value {
        match value {
            Value::Object(object) => {
                let mut entries: Vec<_> = object.iter().collect();
                entries.sort_by_key(|(key, _)| *key);
                Value::Object(entries.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect())
            }
            Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
            scalar => scalar.clone(),
        }
    }
    sorted(value).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::{EnvValue, Variable};

    fn revision(change: impl FnOnce(&mut Inputs)) -> Revision {
        let mut inputs = Inputs::inline("output \"x\" { value = 1 }");
        inputs.variables.insert("a".into(), Variable::from(json!({"x": 1, "y": [1, 2]})));
        inputs.env.insert("TOKEN".into(), EnvValue { value: "one".into(), sensitive: true });
        inputs.env.insert("REGION".into(), EnvValue { value: "one".into(), sensitive: false });
        inputs.files.insert("credentials".into(), b"one".to_vec());
        change(&mut inputs);
        Revision::of(&inputs, "tofu", None)
    }

    #[test]
    fn what_does_not_matter_does_not_count() {
        let same = revision(|_| ());
        assert_eq!(
            same,
            revision(|i| {
                i.variables.insert("a".into(), Variable::from(json!({"y": [1, 2], "x": 1})));
            })
        );
        assert_eq!(same, revision(|i| i.env.get_mut("TOKEN").expect("set").value = "two".into()));
        assert_eq!(
            same,
            revision(|i| {
                i.files.insert("credentials".into(), b"two".to_vec());
            })
        );
        assert_eq!(same, revision(|i| i.plugins.mirror = Some("/elsewhere".into())));
        assert_eq!(same, revision(|i| i.binary.constraint = Some(">= 1".into())));
    }

    #[test]
    fn what_matters_counts() {
        let same = revision(|_| ());
        assert_ne!(
            same,
            revision(|i| {
                i.variables.insert("a".into(), Variable::from(json!({"x": 1, "y": [2, 1]})));
            })
        );
        assert_ne!(same, revision(|i| i.env.get_mut("REGION").expect("set").value = "two".into()));
        assert_ne!(same, revision(|i| i.backend = Backend::Hcl("backend \"s3\" {}".into())));
        assert_ne!(same, revision(|i| i.module = Inputs::inline("").module));
        assert_ne!(same, Revision::of(&Inputs::inline(""), "terraform", None));
        assert_ne!(
            Revision::of(&Inputs::inline(""), "tofu", Some("a")),
            Revision::of(&Inputs::inline(""), "tofu", None)
        );
    }
}
