//! The deepest cause: what keeps an object from being what it should, in the words of what is at the bottom.
//!
//! ```text
//! WorkspaceTemplateApply -> CaptMachine -> CaptMachineSet -> CaptMachineDeployment -> Cluster
//! ```
//!
//! Each level puts it behind its own counts, and hands it on as it is.

use capt_api::conditions::{reasons, types};
use capt_api::machine::CaptMachine;

use crate::conditions::find;

/// Longest cause that is handed on: the object that it names has the rest.
const LONGEST: usize = 1_000;

/// Separator of counts and cause; counts have none.
const BREAK: &str = "; ";

/// A message of counts, and of the cause where there is one.
pub fn with(counts: impl Into<String>, cause: Option<&str>) -> String {
    let counts = counts.into();
    match cause {
        Some(cause) => counts + BREAK + cause,
        None => counts,
    }
}

/// The cause in a message of [`with`].
pub fn of(message: &str) -> Option<&str> {
    message.split_once(BREAK).map(|(_, cause)| cause)
}

/// Why a machine is not ready; none where its workspace is only being built, or goes its way.
pub fn of_machine(machine: &CaptMachine) -> Option<String> {
    let name = machine.metadata.name.as_deref().unwrap_or_default();
    let status = machine.status.as_ref()?;
    let ready = find(&status.conditions, types::READY).filter(|ready| ready.status != "True");
    let deleting = machine.metadata.deletion_timestamp.is_some();
    let message = match ready {
        Some(ready) if deleting && !tells_an_end(&ready.message) => return None,
        Some(ready) if ready.reason == reasons::CREATING => return None,
        Some(ready) if !ready.message.is_empty() => &ready.message,
        _ => status.failure_message.as_ref()?,
    };
    Some(shortened(&format!("CaptMachine {name}: {message}")))
}

/// Returns true if the message of a machine that is being deleted names the cause of the wait, not only the workspace.
fn tells_an_end(message: &str) -> bool {
    message.contains(" to go: ")
}

/// A cause, no longer than is handed on, on one line.
pub fn shortened(cause: &str) -> String {
    let mut cause = cause.trim().replace('\n', " ");
    if let Some((end, _)) = cause.char_indices().nth(LONGEST) {
        cause.truncate(end);
        cause.push('…');
    }
    cause
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_handed_on_as_it_is() {
        let cause = "CaptMachine web-0: workspace web-0-machine: Error: no capacity; try another zone";
        let set = with("1 of 3 machines is ready, 1 failed", Some(cause));
        assert_eq!(of(&set), Some(cause));
        let deployment = with("1 of 3 machines is available, at least 3 must be", of(&set));
        assert_eq!(of(&deployment), Some(cause));
        assert_eq!(of(&with("3 of 3 machines are ready", None)), None);
    }

    #[test]
    fn a_cause_is_one_short_line() {
        let long = shortened(&format!("a\nb{}", "é".repeat(2 * LONGEST)));
        assert!(long.starts_with("a b") && long.ends_with('…'), "{long}");
        assert_eq!(long.chars().count(), LONGEST + 1);
    }
}
