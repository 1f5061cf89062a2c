//! Dependencies between workspaces, and circles in them.

use std::collections::HashSet;

use capt_api::workspace::WorkspaceTemplateApply;
use kube::ResourceExt;

use crate::runtime::Name;
use crate::runtime::cache::Key;

/// Returns the keys of an instance: its template, the workspaces it waits for or takes outputs from, and the backend that
/// they use.
pub fn index(object: &WorkspaceTemplateApply) -> Vec<Key> {
    let namespace = object.namespace().unwrap_or_default();
    let template = Name::mentioned(&object.spec.template_ref, &namespace);
    let others = dependencies(object).into_iter().map(|other| Key::Refers("WorkspaceTemplateApply", other));
    let backend = object.status.as_ref().and_then(|status| status.backend_hash.clone());
    let backend = backend.into_iter().flat_map(|hash| [Key::Backend(hash), Key::AnyBackend]);
    [Key::Refers("WorkspaceTemplate", template)].into_iter().chain(others).chain(backend).collect()
}

/// The workspaces that an instance waits for or takes outputs from.
fn dependencies(object: &WorkspaceTemplateApply) -> Vec<Name> {
    let namespace = object.namespace().unwrap_or_default();
    let sources = object.spec.variables_from.iter().filter_map(|from| from.workspace_ref.as_ref());
    let awaited = object.spec.wait_for_workspaces.iter();
    awaited.chain(sources).map(|reference| Name::mentioned(reference, &namespace)).collect()
}

/// A circle of workspaces that wait for each other, from `start` back to it; none if there is none through it.
pub fn cycle(start: &Name, dependencies: impl Fn(&Name) -> Vec<Name>) -> Option<Vec<Name>> {
    let mut visited = HashSet::new();
    let mut path = vec![(start.clone(), dependencies(start))];
    while let Some((_, rest)) = path.last_mut() {
        let Some(next) = rest.pop() else {
            path.pop();
            continue;
        };
        if next == *start {
            let circle = path.into_iter().map(|(name, _)| name);
            return Some(circle.chain([next]).collect());
        }
        if visited.insert(next.clone()) {
            let onward = dependencies(&next);
            path.push((next, onward));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use capt_api::workspace::{WorkspaceTemplateApplySpec, WorkspaceTemplateApplyStatus};

    use super::*;

    #[test]
    fn an_instance_is_found_by_the_backend_that_its_status_names() {
        let mut object = WorkspaceTemplateApply::new("a", WorkspaceTemplateApplySpec::default());
        assert_eq!(index(&object).len(), 1, "its template");
        let status = WorkspaceTemplateApplyStatus {
            backend_hash: Some("h".into()),
            ..WorkspaceTemplateApplyStatus::default()
        };
        object.status = Some(status);
        assert!(index(&object).contains(&Key::Backend("h".into())), "also after a restart");
    }

    fn find(start: &str, edges: &[(&str, &str)]) -> Option<String> {
        let name = |text: &str| Name::new("n", text);
        let onward = |from: &Name| {
            edges.iter().filter(|(a, _)| *a == from.name).map(|(_, b)| name(b)).collect::<Vec<_>>()
        };
        let circle = cycle(&name(start), onward)?;
        Some(circle.iter().map(|name| name.name.as_str()).collect::<Vec<_>>().join(">"))
    }

    #[test]
    fn circles_are_named_and_nothing_else() {
        assert_eq!(find("a", &[("a", "b"), ("b", "c")]), None);
        assert_eq!(find("a", &[("a", "a")]).as_deref(), Some("a>a"));
        assert_eq!(find("a", &[("a", "b"), ("b", "c"), ("c", "a")]).as_deref(), Some("a>b>c>a"));
        assert_eq!(find("a", &[("a", "b"), ("b", "c"), ("c", "b")]), None, "a circle elsewhere is theirs");
        assert_eq!(
            find("a", &[("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("d", "x")]),
            None,
            "a diamond"
        );
    }
}
