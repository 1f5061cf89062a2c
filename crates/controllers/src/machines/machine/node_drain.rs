//! When a machine's Node is empty enough for the machine to go, and when the Node is gone. Pure.

use std::time::Duration;

use capt_api::conditions::reasons;
use capt_api::machine::NodeRef;

use super::super::context::few;
use super::super::drain::{Outcome, Progress, Work};
use super::observe::Departure;

/// What to do about a Node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// Start a pass; how things stand.
    Ask(Work, String),
    /// Look again after this time, where nothing happens before; how things stand.
    Wait(Option<Duration>, String),
    /// Nothing more is done.
    Over(End),
}

/// How it ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct End {
    /// Whether it went as it should.
    pub well: bool,
    /// Machine-readable reason.
    pub reason: &'static str,
    /// The same in a sentence.
    pub message: String,
}

/// Whether the workspace may be destroyed.
pub fn drained(departure: &Departure) -> Verdict {
    let Departure { subject, drain, since, limit, .. } = departure;
    let cluster = &subject.cluster.name;
    let over = |well, reason, message| Verdict::Over(End { well, reason, message });
    let Some(last) = &drain.last else {
        return ask(departure, drain, Work::Drain, format!("looks for its Node in cluster {cluster}"));
    };
    match last {
        Outcome::NoWay(why) => over(false, reasons::NOT_DRAINED, why.clone()),
        Outcome::NoNode | Outcome::Removed => {
            over(true, reasons::DRAINED, format!("cluster {cluster} has no Node of it"))
        }
        Outcome::Empty(node) => over(true, reasons::DRAINED, format!("Node {} is empty", node.name)),
        Outcome::Unreachable(why) => {
            let message = format!("cluster {cluster} does not answer: {why}");
            if drain.silent >= departure.settings.unreachable {
                over(false, reasons::NOT_DRAINED, message)
            } else {
                ask(departure, drain, Work::Drain, message)
            }
        }
        Outcome::Left(node, going, refused) => {
            let message = left(node, going, refused);
            match limit {
                Some(limit) if since >= limit => over(
                    false,
                    reasons::DRAIN_TIMEOUT,
                    format!("not drained within {} s: {message}", limit.as_secs()),
                ),
                _ => ask(departure, drain, Work::Drain, message),
            }
        }
    }
}

/// Whether the Node is gone, as far as that can be known. Only after its machine is.
pub fn removed(departure: &Departure) -> Verdict {
    let well = Verdict::Over(End { well: true, reason: reasons::DELETING, message: String::new() });
    let Some((work, progress)) = &departure.removal else { return well };
    match &progress.last {
        None => ask(departure, progress, work.clone(), "its Node is removed".into()),
        Some(Outcome::Unreachable(why)) => {
            let message = format!("cluster {} does not answer: {why}", departure.subject.cluster.name);
            if progress.silent >= departure.settings.unreachable {
                Verdict::Over(End { well: false, reason: reasons::NOT_DRAINED, message })
            } else {
                ask(departure, progress, work.clone(), message)
            }
        }
        // Without a kubeconfig there is no cluster any more to have the Node.
        Some(_) => well,
    }
}

/// Another pass, when it is due.
fn ask(departure: &Departure, progress: &Progress, work: Work, message: String) -> Verdict {
    let poll = departure.settings.poll;
    if progress.running {
        Verdict::Wait(None, message)
    } else if progress.last.is_some() && progress.age < poll {
        Verdict::Wait(Some(poll.saturating_sub(progress.age)), message)
    } else {
        Verdict::Ask(work, message)
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
pub fn found(progress: &Progress) -> Option<&NodeRef> {
    match progress.last.as_ref()? {
        Outcome::Left(node, ..) | Outcome::Empty(node) => Some(node),
        Outcome::NoWay(_) | Outcome::Unreachable(_) | Outcome::NoNode | Outcome::Removed => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> NodeRef {
        NodeRef { name: "n".into(), uid: "u".into() }
    }

    fn after(outcome: Outcome, age: u64, silent: u64) -> Departure {
        let drain = Progress {
            running: false,
            last: Some(outcome),
            age: Duration::from_secs(age),
            silent: Duration::from_secs(silent),
        };
        Departure { drain, limit: Some(Duration::from_secs(600)), ..Departure::default() }
    }

    fn reason(verdict: Verdict) -> &'static str {
        match verdict {
            Verdict::Ask(..) => "ask",
            Verdict::Wait(..) => "wait",
            Verdict::Over(end) => end.reason,
        }
    }

    #[test]
    fn pods_are_waited_for_up_to_the_limit() {
        assert_eq!(reason(drained(&Departure::default())), "ask", "nobody has looked yet");
        let left = || Outcome::Left(node(), vec!["a/b".into()], vec!["c/d (budget)".into()]);
        assert_eq!(reason(drained(&after(left(), 1, 0))), "wait");
        assert_eq!(reason(drained(&after(left(), 5, 0))), "ask");
        let running = Departure {
            drain: Progress { running: true, ..after(left(), 9, 0).drain },
            ..Departure::default()
        };
        assert_eq!(reason(drained(&running)), "wait", "one pass at a time");
        let late = |limit| Departure { since: Duration::from_secs(600), limit, ..after(left(), 5, 0) };
        let Verdict::Over(end) = drained(&late(Some(Duration::from_secs(600)))) else { panic!("it is late") };
        assert_eq!((end.well, end.reason), (false, reasons::DRAIN_TIMEOUT));
        assert_eq!(
            end.message,
            "not drained within 600 s: Node n: pods a/b are on their way; may not go yet: c/d (budget)"
        );
        assert_eq!(reason(drained(&late(None))), "ask", "no limit");
    }

    #[test]
    fn a_cluster_that_cannot_be_reached_holds_nothing_up_for_long() {
        let unreachable = || Outcome::Unreachable("refused".into());
        assert_eq!(reason(drained(&after(Outcome::NoWay("no Secret".into()), 0, 0))), reasons::NOT_DRAINED);
        assert_eq!(reason(drained(&after(unreachable(), 5, 59))), "ask");
        assert_eq!(reason(drained(&after(unreachable(), 5, 60))), reasons::NOT_DRAINED);
        assert_eq!(reason(drained(&after(Outcome::NoNode, 0, 0))), reasons::DRAINED);
        assert_eq!(reason(drained(&after(Outcome::Empty(node()), 0, 0))), reasons::DRAINED);
    }

    #[test]
    fn the_node_goes_after_the_machine() {
        assert_eq!(reason(removed(&Departure::default())), reasons::DELETING, "none was found");
        let removal = |last, silent| Departure {
            removal: Some((
                Work::Remove(node()),
                Progress {
                    last,
                    age: Duration::from_secs(9),
                    silent: Duration::from_secs(silent),
                    ..Progress::default()
                },
            )),
            ..Departure::default()
        };
        assert_eq!(reason(removed(&removal(None, 0))), "ask");
        assert_eq!(reason(removed(&removal(Some(Outcome::Unreachable("x".into())), 1))), "ask");
        assert_eq!(
            reason(removed(&removal(Some(Outcome::Unreachable("x".into())), 60))),
            reasons::NOT_DRAINED
        );
        assert_eq!(reason(removed(&removal(Some(Outcome::Removed), 0))), reasons::DELETING);
    }
}
