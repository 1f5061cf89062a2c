//! Requests of users to one workspace, by annotations.

use capt_api::names::annotations;
use capt_api::workspace::WorkspaceTemplateApply;
use kube::ResourceExt;

/// An approval that was used.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Approved {
    /// The plan that it is for.
    pub plan: String,
    /// The user who gave it, as far as the API tells.
    pub by: String,
}

impl Approved {
    /// Reads an annotation.
    fn read(text: &str) -> Option<Self> {
        let (plan, by) = text.split_once(" by ")?;
        Some(Self { plan: plan.trim().to_owned(), by: by.trim().to_owned() })
    }

    /// The text for an annotation.
    pub fn written(&self) -> String {
        format!("{} by {}", self.plan, self.by)
    }
}

/// Requests of users to one workspace.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Requests {
    /// The plan that was approved.
    pub approve: Option<String>,
    /// The approval that was used last: its apply may not have begun yet.
    pub approved: Option<Approved>,
    /// To interrupt the run.
    pub cancel: bool,
    /// To run again what failed.
    pub retry: bool,
    /// The Secret with a state to take over.
    pub import_state: Option<String>,
    /// To restore a kept copy of the state: the serial of the copy, or something else for the newest.
    pub restore_state: Option<String>,
}

impl Requests {
    /// Returns true if a plan is approved, by an approval that is still there or by one that was taken off already.
    pub fn approves(&self, plan: &str) -> bool {
        let used = self.approved.as_ref().map(|approved| approved.plan.as_str());
        self.approve.as_deref() == Some(plan) || used == Some(plan)
    }

    /// Reads the annotations of an object.
    pub fn of(object: &WorkspaceTemplateApply) -> Self {
        let annotations = object.annotations();
        let text =
            |key: &str| annotations.get(key).map(|value| value.trim().to_owned()).filter(|v| !v.is_empty());
        Self {
            approve: text(annotations::APPROVE),
            approved: text(annotations::APPROVED).as_deref().and_then(Approved::read),
            cancel: annotations.contains_key(annotations::CANCEL),
            retry: annotations.contains_key(annotations::RETRY),
            import_state: text(annotations::IMPORT_STATE),
            restore_state: text(annotations::RESTORE_STATE),
        }
    }
}
