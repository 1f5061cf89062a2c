//! What goes wrong: by itself, by mistake, or because somebody deletes things in the middle.

use std::collections::BTreeSet;

use capt_api::machine::{CaptMachineDeployment, CaptMachineSet};
use capt_e2e::until;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::fixture::{Fixture, SOON};
use crate::fleet::{Fleet, deployment, is_ready, nothing_is_left, reason, rolling, started, truth};
use crate::rollouts::sizes;

async fn sets(fixture: &Fixture) -> Vec<CaptMachineSet> {
    fixture.api::<CaptMachineSet>().list(&ListParams::default()).await.unwrap().items
}

/// The set whose machines are of this type.
async fn set_of(fixture: &Fixture, kind: &str) -> CaptMachineSet {
    let found = until("the set", SOON, async || {
        let all = sets(fixture).await;
        all.into_iter().find(|set| set.spec.template.spec.instance_type.as_deref() == Some(kind))
    });
    found.await.unwrap()
}

async fn moved(fixture: &Fixture, lines: usize) {
    let moved = until("it moves", SOON, async || (fixture.traces().len() >= lines).then_some(()));
    moved.await.unwrap_or_else(|error| panic!("{error}: {:#?}", fixture.traces()));
}

pub async fn a_failed_rollout_is_undone_by_itself(fixture: &Fixture) {
    started(fixture, 2, &rolling()).await;
    let first = fixture.standing();
    let asked =
        json!({"metadata": {"annotations": {"infrastructure.cluster.x-k8s.io/undo-on-failure": "true"}}});
    let api = fixture.api::<CaptMachineDeployment>();
    api.patch("web", &PatchParams::default(), &Patch::Merge(&asked)).await.unwrap();
    let mut broken = deployment(2, "broken", &rolling());
    broken["progressDeadlineSeconds"] = json!(3);
    fixture.put("CaptMachineDeployment", "web", broken).await;
    fixture.event("web", "UndidRollout").await;
    let object = fixture.rolled_out().await;
    assert_eq!(object.spec.template.spec.instance_type.as_deref(), Some("small"), "its template is back");
    assert_eq!(object.status.unwrap().current_revision, Some(3));
    assert_eq!((fixture.standing(), fixture.machine_names().await), (first.clone(), first.clone()));
    let traces = fixture.traces();
    assert!(!first.iter().any(|name| traces.contains(&format!("destroyed {name} small"))), "{traces:#?}");
    // One that failed is replaced while it is being destroyed: it does not count.
    assert!(traces[2..].iter().all(|line| line.ends_with(" broken")), "{traces:#?}");
    fixture.delete_all().await;
}

/// The name of a set, and that of a machine's workspace, belong to others.
pub async fn names_that_are_taken(fixture: &Fixture) {
    started(fixture, 1, &rolling()).await;
    let name = sets(fixture).await[0].name_any();
    fixture.delete_all().await;
    let theirs = json!({
        "replicas": 0, "selector": {"matchLabels": {"app": "theirs"}},
        "template": {
            "metadata": {"labels": {"app": "theirs"}},
            "spec": deployment(0, "large", &rolling())["template"]["spec"],
        },
    });
    fixture.put("CaptMachineSet", &name, theirs).await;
    fixture.put("CaptMachineDeployment", "web", deployment(1, "small", &rolling())).await;
    let object = fixture.rolled_out().await;
    assert_eq!(object.status.unwrap().collision_count, Some(1));
    let all = sets(fixture).await;
    let ours = all.iter().find(|set| set.name_any() != name).unwrap();
    assert!(all.len() == 2 && ours.owner_references().len() == 1, "{all:#?}");
    let theirs = all.iter().find(|set| set.name_any() == name).unwrap();
    assert!(theirs.owner_references().is_empty() && theirs.spec.replicas == 0);
    // It is counted once, and the deployment stays with its set.
    fixture.scale(2).await;
    let object = fixture.rolled_out().await;
    assert_eq!(object.status.unwrap().collision_count, Some(1));
    assert_eq!(sets(fixture).await.len(), 2);

    fixture.template("other", "output \"x\" { value = 1 }").await;
    fixture.apply("m-machine", "other", json!({})).await;
    fixture.ready("m-machine").await;
    let spec = deployment(0, "small", &rolling())["template"]["spec"].clone();
    fixture.put("CaptMachine", "m", spec).await;
    fixture.machine("m", "its name is taken", |machine| reason(machine, "Ready") == "NameTaken").await;
    assert!(fixture.get("m-machine").await.owner_references().is_empty(), "the other is not touched");
    fixture.delete("m-machine").await;
    fixture.machine("m", "ready", is_ready).await;
    fixture.api::<capt_api::machine::CaptMachine>().delete("m", &DeleteParams::background()).await.unwrap();
    fixture.api::<CaptMachineSet>().delete(&name, &DeleteParams::background()).await.unwrap();
    fixture.when_gone::<CaptMachineSet>(&name).await;
    fixture.when_gone::<capt_api::machine::CaptMachine>("m").await;
    fixture.delete_all().await;
}

/// Somebody deletes the new set in the middle of a rollout, then the old one in the middle of the next.
pub async fn a_set_goes_in_the_middle(fixture: &Fixture) {
    started(fixture, 3, &rolling()).await;
    fixture.put("CaptMachineDeployment", "web", deployment(3, "large", &rolling())).await;
    moved(fixture, 4).await;
    let new = set_of(fixture, "large").await;
    fixture.api::<CaptMachineSet>().delete(&new.name_any(), &DeleteParams::background()).await.unwrap();
    // First of all: a rollout that ended before the deletion is seen is not the one that is meant.
    let again = until("it is made again", SOON, async || {
        let large = |set: &&CaptMachineSet| set.spec.template.spec.instance_type.as_deref() == Some("large");
        let all = sets(fixture).await;
        (all.iter().find(large)?.uid() != new.uid()).then_some(())
    });
    again.await.unwrap();
    fixture.rolled_out().await;
    assert_eq!(fixture.standing(), fixture.machine_names().await);
    assert_eq!(fixture.standing().len(), 3);
    assert!(sizes(fixture).iter().all(|size| *size <= 4), "never too many: {:#?}", fixture.traces());

    let lines = fixture.traces().len();
    fixture.put("CaptMachineDeployment", "web", deployment(3, "huge", &rolling())).await;
    moved(fixture, lines + 1).await;
    let old = set_of(fixture, "large").await.name_any();
    fixture.api::<CaptMachineSet>().delete(&old, &DeleteParams::background()).await.unwrap();
    fixture.rolled_out().await;
    let traces = fixture.traces();
    let huge = |name: &String| traces.contains(&format!("created {name} huge"));
    assert!(fixture.standing().iter().all(huge) && fixture.standing().len() == 3, "{traces:#?}");
    assert_eq!(fixture.standing(), fixture.machine_names().await);
    assert!(sizes(fixture).iter().all(|size| *size <= 4), "never too many: {traces:#?}");
    fixture.delete_all().await;
}

/// At any moment of a rollout: nothing is left.
pub async fn a_deployment_goes_in_the_middle(fixture: &Fixture) {
    for lines in [3, 4, 5] {
        let before = fixture.traces().len();
        fixture.template("machine", &fixture.machine_module()).await;
        fixture.put("CaptMachineDeployment", "web", deployment(2, "small", &rolling())).await;
        fixture.rolled_out().await;
        fixture.put("CaptMachineDeployment", "web", deployment(2, "large", &rolling())).await;
        moved(fixture, before + lines).await;
        fixture.delete_all().await;
    }
}

/// Two sets that select the same machines: each keeps its own, and both say so.
pub async fn selectors_that_overlap(fixture: &Fixture) {
    fixture.template("machine", &fixture.machine_module()).await;
    let web = deployment(1, "small", &rolling());
    let spec = json!({"replicas": 1, "selector": web["selector"], "template": web["template"]});
    let says = async |name: &str, truth_wanted: &str| {
        let seen = until("it says so", SOON, async || {
            let status = fixture.api::<CaptMachineSet>().get(name).await.unwrap().status?;
            let said = truth(&status.conditions, "SelectorOverlaps") == truth_wanted;
            (said && status.available_replicas == 1 && status.replicas == 1).then_some(())
        });
        seen.await.unwrap();
    };
    fixture.put("CaptMachineSet", "one", spec.clone()).await;
    says("one", "absent").await;
    fixture.put("CaptMachineSet", "two", spec).await;
    says("one", "True").await;
    says("two", "True").await;
    fixture.event("two", "SelectorOverlaps").await;
    let both = BTreeSet::from(["one-0".to_owned(), "two-0".to_owned()]);
    assert_eq!((fixture.standing(), fixture.machine_names().await), (both.clone(), both));
    fixture.api::<CaptMachineSet>().delete("one", &DeleteParams::background()).await.unwrap();
    fixture.when_gone::<CaptMachineSet>("one").await;
    says("two", "absent").await;
    assert_eq!(fixture.standing(), BTreeSet::from(["two-0".to_owned()]));
    fixture.api::<CaptMachineSet>().delete("two", &DeleteParams::background()).await.unwrap();
    fixture.when_gone::<CaptMachineSet>("two").await;
    nothing_is_left(fixture).await;
}

/// A rollout to a template that is not there takes nothing away, and goes on when it comes.
pub async fn a_template_that_is_not_there(fixture: &Fixture) {
    started(fixture, 2, &rolling()).await;
    let first = fixture.standing();
    let mut spec = deployment(2, "small", &rolling());
    spec["template"]["spec"]["workspaceTemplateRef"] = json!({"name": "later"});
    fixture.put("CaptMachineDeployment", "web", spec).await;
    let waits = until("a machine says what is missing", SOON, async || {
        let all =
            fixture.api::<capt_api::machine::CaptMachine>().list(&ListParams::default()).await.unwrap().items;
        let missing = |one: &&capt_api::machine::CaptMachine| {
            let list = one.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
            list.iter().any(|one| {
                one.reason == "WorkspaceTemplateNotFound"
                    && one.message.contains("WorkspaceTemplate later does not exist")
            })
        };
        all.iter().find(missing).map(ResourceExt::name_any)
    });
    let waiting = waits.await.unwrap();
    assert_eq!(fixture.standing(), first, "what serves is not touched");
    let told = until("the deployment says so, too", SOON, async || {
        let object = fixture.api::<CaptMachineDeployment>().get("web").await.unwrap();
        let status = object.status?;
        let current = status.observed_generation == object.metadata.generation;
        (current && truth(&status.conditions, "Ready") == "False").then_some(status)
    });
    assert_eq!(told.await.unwrap().available_replicas, 2);
    fixture.template("later", &fixture.machine_module()).await;
    fixture.rolled_out().await;
    assert!(fixture.standing().is_disjoint(&first) && fixture.standing().contains(&waiting));
    assert!(sizes(fixture)[1..].iter().all(|size| (2..=3).contains(size)), "{:#?}", fixture.traces());
    fixture.delete_all().await;
}

/// Refused before anything is made.
pub async fn labels_that_do_not_match(fixture: &Fixture) {
    let mut web = deployment(2, "small", &rolling());
    web["template"]["metadata"]["labels"] = json!({"app": "other"});
    let refused = |error: kube::Error| {
        let text = error.to_string();
        assert!(text.contains("selector must match template.metadata.labels"), "{text}");
    };
    let object = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CaptMachineDeployment",
        "metadata": {"name": "web"}, "spec": web,
    });
    let object = serde_json::from_value(object).unwrap();
    refused(
        fixture.api::<CaptMachineDeployment>().create(&PostParams::default(), &object).await.unwrap_err(),
    );
    let spec = json!({"replicas": 1, "selector": web["selector"], "template": web["template"]});
    let set = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CaptMachineSet",
        "metadata": {"name": "s"}, "spec": spec,
    });
    let set = serde_json::from_value(set).unwrap();
    refused(fixture.api::<CaptMachineSet>().create(&PostParams::default(), &set).await.unwrap_err());
    nothing_is_left(fixture).await;
}
