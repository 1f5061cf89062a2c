//! Sets that select each other's machines. Neither takes what the other owns, but what nobody owns goes to whoever is
//! first: a person should know.

use std::sync::Arc;

use capt_api::conditions::{reasons, types};
use capt_api::machine::CaptMachineSet;
use capt_planner::conditions::Finding;
use capt_planner::set::machine;
use kube::ResourceExt;
use kube::core::{Selector, SelectorExt};

use capt_planner::reason::few;

/// Other sets in the same namespace that select machines of this one, or whose machines this one selects.
pub fn overlapping(set: &CaptMachineSet, all: &[Arc<CaptMachineSet>]) -> Vec<String> {
    let ours = machine(set, 0).metadata.labels.unwrap_or_default();
    let selector = selector(set);
    let overlaps = |other: &&Arc<CaptMachineSet>| {
        other.metadata.namespace == set.metadata.namespace
            && other.metadata.uid != set.metadata.uid
            && other.metadata.deletion_timestamp.is_none()
            && (self::selector(other).is_some_and(|theirs| theirs.matches(&ours))
                || selector
                    .as_ref()
                    .is_some_and(|ours| ours.matches(&machine(other, 0).metadata.labels.unwrap_or_default())))
    };
    let mut names: Vec<String> = all.iter().filter(overlaps).map(|other| other.name_any()).collect();
    names.sort();
    names
}

fn selector(set: &CaptMachineSet) -> Option<Selector> {
    // One that selects everything is refused by the API.
    set.spec.selector.clone().try_into().ok()
}

/// Builds the finding of a set about the sets that it overlaps with.
pub fn finding(others: &[String]) -> Option<Finding> {
    let message = || {
        let others = few(others);
        format!("selects the same machines as CaptMachineSet {others}: give them selectors that differ")
    };
    (!others.is_empty())
        .then(|| Finding::new(types::SELECTOR_OVERLAPS, true, reasons::SELECTOR_OVERLAPS, message()))
}

#[cfg(test)]
mod tests {
    use capt_api::machine::CaptMachineSetSpec;

    use super::*;

    fn set(name: &str, selects: (&str, &str), labels: &[(&str, &str)]) -> Arc<CaptMachineSet> {
        let own = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        let mut spec = CaptMachineSetSpec::default();
        spec.selector.match_labels = Some([own(selects)].into());
        spec.template.metadata.labels = labels.iter().copied().map(own).collect();
        let mut set = CaptMachineSet::new(name, spec);
        set.metadata.uid = Some(name.to_owned());
        set.metadata.namespace = Some("n".into());
        Arc::new(set)
    }

    #[test]
    fn sets_that_select_each_others_machines_are_named() {
        let web = set("web", ("app", "web"), &[("app", "web"), ("tier", "front")]);
        let same = set("same", ("app", "web"), &[("app", "web")]);
        let wider = set("wider", ("tier", "front"), &[("tier", "front")]);
        let other = set("other", ("app", "db"), &[("app", "db")]);
        let mut elsewhere = set("elsewhere", ("app", "web"), &[("app", "web")]).as_ref().clone();
        elsewhere.metadata.namespace = Some("m".into());
        let all = [web.clone(), same.clone(), wider.clone(), other.clone(), Arc::new(elsewhere)];
        assert_eq!(overlapping(&web, &all), ["same", "wider"]);
        assert_eq!(overlapping(&same, &all), ["web"]);
        assert_eq!(overlapping(&wider, &all), ["web"]);
        assert!(overlapping(&other, &all).is_empty() && finding(&[]).is_none());
    }
}
