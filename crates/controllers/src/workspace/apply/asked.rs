//! What people ask of one instance by annotations.

use capt_api::names::annotations;
use capt_api::workspace::WorkspaceTemplateApply;
use kube::ResourceExt;

/// What people ask.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Asked {
    /// The plan that was approved.
    pub approve: Option<String>,
    /// To interrupt the run.
    pub cancel: bool,
    /// To run again what failed.
    pub retry: bool,
    /// The Secret with a state to take over.
    pub import_state: Option<String>,
}

impl Asked {
    /// What an object's annotations ask.
    pub fn of(object: &WorkspaceTemplateApply) -> Self {
        let annotations = object.annotations();
        let text =
            |key: &str| annotations.get(key).map(|value| value.trim().to_owned()).filter(|v| !v.is_empty());
        Self {
            approve: text(annotations::APPROVE),
            cancel: annotations.contains_key(annotations::CANCEL),
            retry: annotations.contains_key(annotations::RETRY),
            import_state: text(annotations::IMPORT_STATE),
        }
    }
}
