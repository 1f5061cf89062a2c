//! Numbers of revisions, history, undo.
//!
//! A set stands for a revision of its deployment. Numbers count up; a set that becomes current again gets the next one.

use capt_api::machine::{CaptMachineDeployment, CaptMachineSet, MachineTemplate};
use capt_api::names::{annotations, labels};
use serde::Serialize;

use crate::deployment::current;
use crate::template::same_machine;

/// Why an undo is not possible.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum UndoError {
    /// There is no such revision.
    #[error("there is no revision {wanted}; there are: {}", list(.known))]
    Unknown { wanted: i64, known: Vec<i64> },
    /// There is nothing to go back to.
    #[error("there is no earlier revision to go back to")]
    NoEarlier,
    /// The deployment is paused.
    #[error("the deployment is paused: resume it first")]
    Paused,
}

fn list(known: &[i64]) -> String {
    known.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// One revision.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Its number.
    pub revision: i64,
    /// The set that stands for it.
    pub set: String,
    /// True if its template is the deployment's template now.
    pub current: bool,
    /// Its template, as the deployment had it.
    pub template: MachineTemplate,
}

/// Revision that a set stands for; 0 where it has none yet.
pub fn of(set: &CaptMachineSet) -> i64 {
    set.metadata
        .annotations
        .as_ref()
        .and_then(|all| all.get(annotations::REVISION))
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

/// The revisions of a deployment, the oldest first. `sets` are those that it owns.
pub fn history(deployment: &CaptMachineDeployment, sets: &[&CaptMachineSet]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = sets
        .iter()
        .filter(|set| set.metadata.deletion_timestamp.is_none())
        .map(|set| Entry {
            revision: of(set),
            set: set.metadata.name.clone().unwrap_or_default(),
            current: same_machine(&set.spec.template, &deployment.spec.template),
            template: without_hash(&set.spec.template),
        })
        .collect();
    entries.sort_by_key(|entry| entry.revision);
    // Of sets with equal templates (a restart makes them) only the last is current.
    let last = entries.iter().rposition(|entry| entry.current);
    for (index, entry) in entries.iter_mut().enumerate() {
        entry.current = Some(index) == last;
    }
    entries
}

/// The template to put into the deployment to go back: to a revision, or to the one before the current.
pub fn undo(
    deployment: &CaptMachineDeployment,
    sets: &[&CaptMachineSet],
    to: Option<i64>,
) -> Result<(i64, MachineTemplate), UndoError> {
    if deployment.spec.paused {
        return Err(UndoError::Paused);
    }
    let mut entries = history(deployment, sets);
    let position = match to {
        Some(wanted) => entries.iter().position(|entry| entry.revision == wanted).ok_or_else(|| {
            UndoError::Unknown { wanted, known: entries.iter().map(|entry| entry.revision).collect() }
        })?,
        None => entries
            .iter()
            .rposition(|entry| !entry.current && !same_machine(&entry.template, &deployment.spec.template))
            .ok_or(UndoError::NoEarlier)?,
    };
    let entry = entries.swap_remove(position);
    Ok((entry.revision, entry.template))
}

/// A set's template as the deployment had it: without the label that keeps sets apart.
pub(crate) fn without_hash(template: &MachineTemplate) -> MachineTemplate {
    let mut template = template.clone();
    template.metadata.labels.remove(labels::TEMPLATE_HASH);
    template
}

/// The set to go back to by itself: the newest earlier revision that still has available machines. A revision without
/// any is none: two broken revisions would be undone for one another for ever.
pub(crate) fn to_fall_back_to<'a>(
    sets: &[current::Set<'a>],
    now_current: Option<&str>,
) -> Option<&'a CaptMachineSet> {
    sets.iter()
        .filter(|set| Some(set.name) != now_current && set.available > 0 && !set.deleting)
        .max_by_key(|set| set.revision)
        .map(|set| set.object)
}
