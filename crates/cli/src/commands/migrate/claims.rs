//! Claims of instances on Workspaces of Crossplane. Pure.
//!
//! A Workspace has no namespace, and the Go version wrote nothing into it that names its instance: it only called it like that, without
//! `-apply`, in earlier versions with `-workspace` behind it. Whoever may create objects in some namespace can choose such a name, and
//! who may write a status can write a Workspace into it. So a Workspace is handed over only where one instance alone is called like it.

use std::collections::{BTreeMap, BTreeSet};

use capt_api::names::annotations;
use kube::ResourceExt;
use kube::api::DynamicObject;

/// The instances that each Workspace may be of.
pub struct Claims(BTreeMap<String, BTreeSet<String>>);

/// The Workspace that an instance is of by its name, and the other one that its status names.
pub fn named(apply: &DynamicObject) -> (String, Option<String>) {
    let name = apply.name_any();
    let bare = name.strip_suffix("-apply").unwrap_or(&name).to_owned();
    match apply.data["status"]["workspaceName"].as_str() {
        Some(told) if told == bare || told == name || told == format!("{name}-workspace") => {
            (told.to_owned(), None)
        }
        told => (bare, told.map(str::to_owned)),
    }
}

/// An instance as messages name it.
pub fn shown(apply: &DynamicObject) -> String {
    format!("{}/{}", apply.namespace().unwrap_or_default(), apply.name_any())
}

impl Claims {
    pub fn of(applies: &[DynamicObject], workspaces: &BTreeMap<String, DynamicObject>) -> Self {
        let mut claims: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for apply in applies {
            let (by_name, told) = named(apply);
            // Once it is handed over, its status has the name that it has in its backend.
            let done = workspaces.get(&by_name).is_some_and(|workspace| {
                workspace.annotations().get(annotations::HANDED_OVER) == Some(&shown(apply))
            });
            let told = told.filter(|_| !done);
            // What is handed over is taken: names of later ones mean nothing.
            let free = |name: &String| {
                let workspace = workspaces.get(name);
                workspace.is_some_and(|it| !it.annotations().contains_key(annotations::HANDED_OVER))
            };
            for workspace in told.into_iter().chain([by_name]).filter(free) {
                claims.entry(workspace).or_default().insert(shown(apply));
            }
        }
        Self(claims)
    }

    /// Returns true if nobody else claims a Workspace.
    pub fn is_alone(&self, workspace: &str) -> bool {
        self.0.get(workspace).is_none_or(|all| all.len() == 1)
    }

    /// Decisions that are left to a user.
    pub fn conflicts(&self) -> impl Iterator<Item = String> {
        self.0.iter().filter(|(_, all)| all.len() > 1).map(|(workspace, all)| {
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            format!(
                "Crossplane's Workspace {workspace} may be of each of WorkspaceTemplateApply {}, and is handed over to none: delete those \
                 that it is not of, or give its state to the right one with capt import-state",
                all.join(" and ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(value: Value) -> DynamicObject {
        let mut value = value;
        (value["apiVersion"], value["kind"]) = ("v1".into(), "X".into());
        serde_json::from_value(value).unwrap()
    }

    fn apply(namespace: &str, name: &str, told: Option<&str>) -> DynamicObject {
        object(json!({"metadata": {"namespace": namespace, "name": name}, "status": {"workspaceName": told}}))
    }

    fn claims(applies: &[DynamicObject], handed_over: Option<&str>) -> Claims {
        let workspace = |name: &str| {
            let to = handed_over.filter(|_| name == "prod");
            let annotations = to.map(|to| json!({ annotations::HANDED_OVER: to }));
            let metadata = json!({"name": name, "annotations": annotations});
            (name.to_owned(), object(json!({ "metadata": metadata })))
        };
        Claims::of(applies, &["prod", "other"].into_iter().map(workspace).collect())
    }

    #[test]
    fn a_workspace_is_of_who_is_called_like_it_alone() {
        let owner = || apply("infra", "prod-apply", Some("prod"));
        // A name like its own, the same name, and a status.
        for tenant in [
            apply("tenant", "prod", None),
            apply("tenant", "prod-apply", Some("prod")),
            apply("tenant", "else", Some("prod")),
            apply("infra", "prod", None),
        ] {
            let claims = claims(&[tenant.clone(), owner()], None);
            assert!(!claims.is_alone("prod"), "{tenant:?}");
            let told: Vec<String> = claims.conflicts().collect();
            assert_eq!(told.len(), 1, "{told:?}");
            assert!(told[0].contains("infra/prod-apply") && told[0].contains(&shown(&tenant)), "{told:?}");
        }
        let alone = claims(&[owner(), apply("tenant", "own", None)], None);
        assert!(alone.is_alone("prod") && alone.conflicts().next().is_none());
    }

    #[test]
    fn a_status_alone_names_nothing() {
        let (by_name, told) = named(&apply("tenant", "else-apply", Some("prod")));
        assert_eq!((by_name.as_str(), told.as_deref()), ("else", Some("prod")));
        for (name, told) in [("prod", "prod-workspace"), ("prod-apply", "prod"), ("prod-apply", "prod-apply")]
        {
            assert_eq!(named(&apply("infra", name, Some(told))), (told.to_owned(), None));
        }
        // What this command wrote there itself, the name in the backend, is no claim; what is handed over is nobody's any more.
        let other = || apply("infra", "other", None);
        let done = apply("infra", "prod-apply", Some("other"));
        assert!(!claims(&[done.clone(), other()], None).is_alone("other"));
        assert!(claims(&[done, other()], Some("infra/prod-apply")).is_alone("other"));
        let later = [apply("infra", "prod-apply", None), apply("tenant", "prod", None)];
        assert!(claims(&later, Some("infra/prod-apply")).conflicts().next().is_none());
    }
}
