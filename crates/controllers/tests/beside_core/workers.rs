//! A MachineDeployment of Cluster API over a CaptMachineTemplate: core makes Machines, CAPT what is behind them.

use std::collections::BTreeSet;

use capt_e2e::until;
use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams};
use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::live_core::{CORE, INFRASTRUCTURE, LiveCore, api, apply, change, condition, example, join};
use crate::plain::is_provisioned;

const MACHINE: (&str, &str) = (CORE, "Machine");
const DEPLOYMENT: (&str, &str) = (CORE, "MachineDeployment");
const CAPT_MACHINE: (&str, &str) = (INFRASTRUCTURE, "CaptMachine");

/// Made, scaled and rolled.
pub async fn live(core: &LiveCore, fixture: &Fixture, manifest: Vec<Value>) {
    apply(fixture, manifest).await;
    let machines = core.all(fixture, CAPT_MACHINE, 2, "two machines", is_provisioned).await;
    assert!(machines.iter().all(|machine| machine.data["spec"]["instanceType"] == "t3.medium"));
    // As far as core gets while no kubelet has come.
    let provisioned = |machine: &DynamicObject| {
        machine.data["status"]["phase"] == "Provisioned"
            && machine.data["spec"]["providerID"].is_string()
            && condition(machine, "InfrastructureReady") == "True"
            && condition(machine, "BootstrapConfigReady") == "True"
    };
    let machines = core.all(fixture, MACHINE, 2, "two Machines are provisioned", provisioned).await;
    assert!(machines.iter().all(|machine| machine.data["status"]["addresses"][0]["type"] == "InternalIP"));
    eprintln!("workers: provisioned");

    let kubelets = kubelets(fixture);
    let work = async {
        core.when(fixture, DEPLOYMENT, "classy-workers", "two are available", has(2)).await;
        let running = |machine: &DynamicObject| machine.data["status"]["phase"] == "Running";
        core.all(fixture, MACHINE, 2, "two Machines run", running).await;
        change(fixture, DEPLOYMENT, "classy-workers", json!({"spec": {"replicas": 3}})).await;
        core.when(fixture, DEPLOYMENT, "classy-workers", "three are available", has(3)).await;
        let before = names(core, fixture, 3).await;
        change(fixture, DEPLOYMENT, "classy-workers", json!({"spec": {"replicas": 1}})).await;
        let left = names(core, fixture, 1).await;
        assert!(left.is_subset(&before));
        eprintln!("workers: scaled");
        roll(core, fixture, &left).await;
        eprintln!("workers: rolled");
    };
    tokio::select! {
        () = work => {}
        () = kubelets => {}
    }
}

/// Another template: other machines.
async fn roll(core: &LiveCore, fixture: &Fixture, before: &BTreeSet<String>) {
    let mut template = example("clusterclass/00-templates.yaml")
        .into_iter()
        .find(|object| object["kind"] == "CaptMachineTemplate")
        .unwrap();
    template["metadata"]["name"] = json!("larger");
    template["spec"]["template"]["spec"]["instanceType"] = json!("t3.large");
    apply(fixture, vec![template]).await;
    let body = json!({"spec": {"template": {"spec": {"infrastructureRef": {"name": "larger"}}}}});
    change(fixture, DEPLOYMENT, "classy-workers", body).await;
    let large = |machine: &DynamicObject| {
        machine.data["spec"]["instanceType"] == "t3.large" && is_provisioned(machine)
    };
    core.all(fixture, CAPT_MACHINE, 1, "one machine of the new template", large).await;
    core.when(fixture, DEPLOYMENT, "classy-workers", "one is available", has(1)).await;
    assert!(names(core, fixture, 1).await.is_disjoint(before));
}

/// Whether a deployment is what its current spec says, with so many machines.
fn has(count: i64) -> impl Fn(&DynamicObject) -> bool {
    move |deployment| {
        let status = &deployment.data["status"];
        status["observedGeneration"] == json!(deployment.metadata.generation)
            && ["replicas", "upToDateReplicas", "readyReplicas", "availableReplicas"]
                .iter()
                .all(|field| status[*field] == count)
    }
}

async fn names(core: &LiveCore, fixture: &Fixture, count: usize) -> BTreeSet<String> {
    let machines = core.all(fixture, CAPT_MACHINE, count, "so many machines", is_provisioned).await;
    machines.iter().map(ResourceExt::name_any).collect()
}

/// Lets every machine that is provisioned join, for as long as it is polled.
async fn kubelets(fixture: &Fixture) {
    let mut joined = BTreeSet::new();
    loop {
        let fresh = until("a machine to join", crate::fixture::SOON, async || {
            let all =
                api(fixture, CAPT_MACHINE.0, CAPT_MACHINE.1).list(&ListParams::default()).await.ok()?.items;
            all.into_iter().find(|machine| {
                is_provisioned(machine)
                    && machine.metadata.deletion_timestamp.is_none()
                    && !joined.contains(&machine.name_any())
            })
        });
        if let Ok(machine) = fresh.await {
            let id = machine.data["spec"]["providerID"].as_str().unwrap();
            join(fixture, &machine.name_any(), id).await;
            joined.insert(machine.name_any());
        }
    }
}
