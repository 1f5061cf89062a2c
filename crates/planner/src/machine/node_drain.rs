//! Drain of a machine's Node: when it is empty enough for the machine to go, and when it is gone.

use std::time::Duration;

use capt_api::conditions::reasons;
use capt_api::machine::NodeRef;

use crate::reason::few;

/// Timing of drains.
#[derive(Clone, Copy, Debug)]
pub struct DrainSettings {
    /// Time between two passes.
    pub poll: Duration,
    /// Timeout of a pass.
    pub pass: Duration,
    /// Time after which a cluster that does not answer is waited for no longer.
    pub unreachable: Duration,
}

impl Default for DrainSettings {
    fn default() -> Self {
        Self {
            poll: Duration::from_secs(5),
            pass: Duration::from_secs(20),
            unreachable: Duration::from_secs(60),
        }
    }
}

/// NodeWork of a pass.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum NodeWork {
    /// Moves pods away.
    Drain,
    /// Removes the Node.
    Remove(NodeRef),
}

/// DrainOutcome of a pass.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum DrainOutcome {
    /// Nobody can reach the cluster, and that will not change by itself.
    NoWay(String),
    /// The cluster did not answer, or not as it should.
    Unreachable(String),
    /// It has no Node of the machine.
    NoNode,
    /// These pods are still on the Node: those on their way, and those that may not go yet, with the reason.
    Left(NodeRef, Vec<String>, Vec<String>),
    /// The Node has no pods that matter.
    Empty(NodeRef),
    /// The Node is gone.
    Removed,
}

/// DrainProgress of the passes for a machine.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct DrainProgress {
    /// A pass is under way.
    pub running: bool,
    /// DrainOutcome of the last one.
    pub last: Option<DrainOutcome>,
    /// Time since then.
    pub age: Duration,
    /// Time since the cluster last answered, or since the work began.
    pub silent: Duration,
}

/// A machine's Node on its way out.
#[derive(Clone, Debug, Default)]
pub struct NodeDeparture {
    /// Name of the cluster that it is a Node of.
    pub cluster: String,
    /// DrainProgress of its drain.
    pub drain: DrainProgress,
    /// DrainProgress of its removal; nothing where no Node was found.
    pub removal: Option<(NodeWork, DrainProgress)>,
    /// Time since the drain began.
    pub since: Duration,
    /// Longest time that it may take; none where there is no limit.
    pub limit: Option<Duration>,
    /// Timing of drains.
    pub settings: DrainSettings,
}

/// Decision about a Node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum DrainVerdict {
    /// Starts a pass; with a message.
    Ask(NodeWork, String),
    /// Looks again after this time, where nothing happens before; with a message.
    Wait(Option<Duration>, String),
    /// Nothing more is done.
    Over(DrainEnd),
}

/// End of a drain.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DrainEnd {
    /// It went as it should.
    pub well: bool,
    /// Machine-readable reason.
    pub reason: &'static str,
    /// Human-readable message.
    pub message: String,
}

/// Decides if the workspace may be destroyed.
pub fn drained(departure: &NodeDeparture) -> DrainVerdict {
    let NodeDeparture { cluster, drain, since, limit, .. } = departure;
    let over = |well, reason, message| DrainVerdict::Over(DrainEnd { well, reason, message });
    let Some(last) = &drain.last else {
        return ask(departure, drain, NodeWork::Drain, format!("looks for its Node in cluster {cluster}"));
    };
    match last {
        DrainOutcome::NoWay(why) => over(false, reasons::NOT_DRAINED, why.clone()),
        DrainOutcome::NoNode | DrainOutcome::Removed => {
            over(true, reasons::DRAINED, format!("cluster {cluster} has no Node of it"))
        }
        DrainOutcome::Empty(node) => over(true, reasons::DRAINED, format!("Node {} is empty", node.name)),
        DrainOutcome::Unreachable(why) => {
            let message = format!("cluster {cluster} does not answer: {why}");
            if drain.silent >= departure.settings.unreachable {
                over(false, reasons::NOT_DRAINED, message)
            } else {
                ask(departure, drain, NodeWork::Drain, message)
            }
        }
        DrainOutcome::Left(node, going, refused) => {
            let message = left(node, going, refused);
            match limit {
                Some(limit) if since >= limit => over(
                    false,
                    reasons::DRAIN_TIMEOUT,
                    format!("not drained within {} s: {message}", limit.as_secs()),
                ),
                _ => ask(departure, drain, NodeWork::Drain, message),
            }
        }
    }
}

/// Decides if the Node is gone, as far as that can be known. Only after its machine is.
pub fn removed(departure: &NodeDeparture) -> DrainVerdict {
    let well = DrainVerdict::Over(DrainEnd { well: true, reason: reasons::DELETING, message: String::new() });
    let Some((work, progress)) = &departure.removal else { return well };
    match &progress.last {
        None => ask(departure, progress, work.clone(), "its Node is removed".into()),
        Some(DrainOutcome::Unreachable(why)) => {
            let message = format!("cluster {} does not answer: {why}", departure.cluster);
            if progress.silent >= departure.settings.unreachable {
                DrainVerdict::Over(DrainEnd { well: false, reason: reasons::NOT_DRAINED, message })
            } else {
                ask(departure, progress, work.clone(), message)
            }
        }
        // Without a kubeconfig there is no cluster any more to have the Node.
        Some(_) => well,
    }
}

/// Another pass, when it is due.
fn ask(departure: &NodeDeparture, progress: &DrainProgress, work: NodeWork, message: String) -> DrainVerdict {
    let poll = departure.settings.poll;
    if progress.running {
        DrainVerdict::Wait(None, message)
    } else if progress.last.is_some() && progress.age < poll {
        DrainVerdict::Wait(Some(poll.saturating_sub(progress.age)), message)
    } else {
        DrainVerdict::Ask(work, message)
    }
}

fn left(node: &NodeRef, going: &[String], refused: &[String]) -> String {
    let mut parts = Vec::new();
    if !going.is_empty() {
        parts.push(format!("pods {} are on their way", few(going)));
    }
    if !refused.is_empty() {
        parts.push(format!("may not go yet: {}", few(refused)));
    }
    format!("Node {}: {}", node.name, parts.join("; "))
}

/// The Node that a pass found.
pub fn found(progress: &DrainProgress) -> Option<&NodeRef> {
    match progress.last.as_ref()? {
        DrainOutcome::Left(node, ..) | DrainOutcome::Empty(node) => Some(node),
        DrainOutcome::NoWay(_)
        | DrainOutcome::Unreachable(_)
        | DrainOutcome::NoNode
        | DrainOutcome::Removed => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> NodeRef {
        NodeRef { name: "n".into(), uid: "u".into() }
    }

    fn after(outcome: DrainOutcome, age: u64, silent: u64) -> NodeDeparture {
        let drain = DrainProgress {
            running: false,
            last: Some(outcome),
            age: Duration::from_secs(age),
            silent: Duration::from_secs(silent),
        };
        NodeDeparture { drain, limit: Some(Duration::from_secs(600)), ..NodeDeparture::default() }
    }

    fn reason(verdict: DrainVerdict) -> &'static str {
        match verdict {
            DrainVerdict::Ask(..) => "ask",
            DrainVerdict::Wait(..) => "wait",
            DrainVerdict::Over(end) => end.reason,
        }
    }

    #[test]
    fn pods_are_waited_for_up_to_the_limit() {
        assert_eq!(reason(drained(&NodeDeparture::default())), "ask", "nobody has looked yet");
        let left = || DrainOutcome::Left(node(), vec!["a/b".into()], vec!["c/d (budget)".into()]);
        assert_eq!(reason(drained(&after(left(), 1, 0))), "wait");
        assert_eq!(reason(drained(&after(left(), 5, 0))), "ask");
        let running = NodeDeparture {
            drain: DrainProgress { running: true, ..after(left(), 9, 0).drain },
            ..NodeDeparture::default()
        };
        assert_eq!(reason(drained(&running)), "wait", "one pass at a time");
        let late = |limit| NodeDeparture { since: Duration::from_secs(600), limit, ..after(left(), 5, 0) };
        let DrainVerdict::Over(end) = drained(&late(Some(Duration::from_secs(600)))) else {
            panic!("it is late")
        };
        assert_eq!((end.well, end.reason), (false, reasons::DRAIN_TIMEOUT));
        assert_eq!(
            end.message,
            "not drained within 600 s: Node n: pods a/b are on their way; may not go yet: c/d (budget)"
        );
        assert_eq!(reason(drained(&late(None))), "ask", "no limit");
    }

    #[test]
    fn a_cluster_that_cannot_be_reached_holds_nothing_up_for_long() {
        let unreachable = || DrainOutcome::Unreachable("refused".into());
        assert_eq!(
            reason(drained(&after(DrainOutcome::NoWay("no Secret".into()), 0, 0))),
            reasons::NOT_DRAINED
        );
        assert_eq!(reason(drained(&after(unreachable(), 5, 59))), "ask");
        assert_eq!(reason(drained(&after(unreachable(), 5, 60))), reasons::NOT_DRAINED);
        assert_eq!(reason(drained(&after(DrainOutcome::NoNode, 0, 0))), reasons::DRAINED);
        assert_eq!(reason(drained(&after(DrainOutcome::Empty(node()), 0, 0))), reasons::DRAINED);
    }

    #[test]
    fn the_node_goes_after_the_machine() {
        assert_eq!(reason(removed(&NodeDeparture::default())), reasons::DELETING, "none was found");
        let removal = |last, silent| NodeDeparture {
            removal: Some((
                NodeWork::Remove(node()),
                DrainProgress {
                    last,
                    age: Duration::from_secs(9),
                    silent: Duration::from_secs(silent),
                    ..DrainProgress::default()
                },
            )),
            ..NodeDeparture::default()
        };
        assert_eq!(reason(removed(&removal(None, 0))), "ask");
        assert_eq!(reason(removed(&removal(Some(DrainOutcome::Unreachable("x".into())), 1))), "ask");
        assert_eq!(
            reason(removed(&removal(Some(DrainOutcome::Unreachable("x".into())), 60))),
            reasons::NOT_DRAINED
        );
        assert_eq!(reason(removed(&removal(Some(DrainOutcome::Removed), 0))), reasons::DELETING);
    }
}
