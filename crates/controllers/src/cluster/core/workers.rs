//! The machines of a Cluster that are not its control plane's, and what they are made from.

use capt_api::cluster::core::WorkersStatus;
use capt_api::conditions::types;
use capt_api::machine::{CaptMachine, CaptMachineDeployment, CaptMachineSet, NodeGroup};
use capt_api::names::labels;
use capt_planner::cluster::core::{ReportedCondition, Worker, WorkerKind, Workers};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::ListParams;
use kube::{Api, Resource, ResourceExt};

use super::ClusterContext;
use crate::runtime::conditions::{Truth, find, is_true};
use crate::runtime::owners::controller_uid;
use crate::runtime::status::PATIENCE;
use crate::runtime::{Cache, Error, Kind, Name, Writer};

/// Looks at the caches; and, where a Cluster goes and they show nothing, at the API: what was made a moment ago must
/// not outlive what it runs in.
pub async fn observe(context: &ClusterContext, cluster: &Name, deleting: bool) -> Result<Workers, Error> {
    let mut workers = Workers::default();
    if deleting {
        let mut all = of(&context.deployments, cluster, WorkerKind::Deployment);
        all.extend(of(&context.sets, cluster, WorkerKind::Set));
        all.extend(of(&context.machines, cluster, WorkerKind::Machine));
        all.extend(of(&context.groups, cluster, WorkerKind::Group));
        if all.is_empty() {
            all.extend(live::<CaptMachineDeployment>(context, cluster, WorkerKind::Deployment).await?);
            all.extend(live::<CaptMachineSet>(context, cluster, WorkerKind::Set).await?);
            all.extend(live::<CaptMachine>(context, cluster, WorkerKind::Machine).await?);
            all.extend(live::<NodeGroup>(context, cluster, WorkerKind::Group).await?);
        }
        all.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
        workers.all = all;
    }
    count(context, cluster, &mut workers);
    Ok(workers)
}

fn belongs<K: Resource>(object: &K, cluster: &Name) -> bool {
    object.meta().namespace.as_ref() == Some(&cluster.namespace)
        && object.labels().get(labels::CLUSTER_NAME) == Some(&cluster.name)
}

/// Deletes one.
pub async fn delete(writer: &Writer, namespace: &str, worker: &Worker) -> Result<(), Error> {
    let (name, uid) = (Name::new(namespace, worker.name.clone()), &worker.uid);
    match worker.kind {
        WorkerKind::Deployment => writer.delete::<CaptMachineDeployment>(&name, uid).await,
        WorkerKind::Set => writer.delete::<CaptMachineSet>(&name, uid).await,
        WorkerKind::Machine => writer.delete::<CaptMachine>(&name, uid).await,
        WorkerKind::Group => writer.delete::<NodeGroup>(&name, uid).await,
    }
    .map(drop)
}

fn of<K: Kind>(cache: &Cache<K>, cluster: &Name, kind: WorkerKind) -> Vec<Worker> {
    let all = cache.all();
    let ours = all.iter().filter(|object| belongs(object.as_ref(), cluster));
    ours.map(|object| Worker::read(object.as_ref(), kind)).collect()
}

async fn live<K: Kind>(
    context: &ClusterContext,
    cluster: &Name,
    kind: WorkerKind,
) -> Result<Vec<Worker>, Error> {
    let api: Api<K> = Api::namespaced(context.writer.client().clone(), &cluster.namespace);
    let ours = ListParams::default().labels(&format!("{}={}", labels::CLUSTER_NAME, cluster.name));
    let attempt = || format!("list {}s of {cluster}", kind.as_str());
    let list = tokio::time::timeout(PATIENCE, api.list_metadata(&ours)).await;
    let list = list.map_err(|_| Error::Slow(attempt()))?.map_err(Error::api(attempt()));
    match list {
        Ok(list) => Ok(list.items.iter().map(|object| Worker::read(object, kind)).collect()),
        // The kind is not installed.
        Err(error) if error.code() == Some(404) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Deployments count their machines; sets and machines that are nobody's count themselves.
fn count(context: &ClusterContext, cluster: &Name, workers: &mut Workers) {
    let mut sum = Sum::default();
    for deployment in context.deployments.all().iter().filter(|object| belongs(object.as_ref(), cluster)) {
        let status = deployment.status.clone().unwrap_or_default();
        sum.add([
            deployment.spec.replicas,
            status.replicas,
            status.up_to_date_replicas,
            status.ready_replicas,
            status.available_replicas,
        ]);
        workers.deployments.push((deployment.name_any(), said(&status.conditions, types::AVAILABLE)));
    }
    workers.deployments.sort_by(|a, b| a.0.cmp(&b.0));
    let free = |uid: Option<&str>| uid.is_none();
    for set in context.sets.all().iter().filter(|object| belongs(object.as_ref(), cluster)) {
        if free(controller_uid(set.as_ref())) {
            let status = set.status.clone().unwrap_or_default();
            let counts = [
                set.spec.replicas,
                status.replicas,
                status.replicas,
                status.ready_replicas,
                status.available_replicas,
            ];
            sum.add(counts);
            let title = format!("CaptMachineSet {}", set.name_any());
            workers.others.push((title, said(&status.conditions, types::READY)));
        }
    }
    for machine in context.machines.all().iter().filter(|object| belongs(object.as_ref(), cluster)) {
        if free(controller_uid(machine.as_ref())) {
            let conditions = machine.status.as_ref().map(|status| status.conditions.as_slice());
            let conditions = conditions.unwrap_or_default();
            let ready = i32::from(is_true(conditions, types::READY));
            sum.add([1, 1, 1, ready, ready]);
            let title = format!("CaptMachine {}", machine.name_any());
            workers.others.push((title, said(conditions, types::READY)));
        }
    }
    for group in context.groups.all().iter().filter(|object| belongs(object.as_ref(), cluster)) {
        let conditions = group.status.as_ref().map(|status| status.conditions.as_slice());
        let title = format!("NodeGroup {}", group.name_any());
        workers.others.push((title, said(conditions.unwrap_or_default(), types::READY)));
    }
    workers.others.sort_by(|a, b| a.0.cmp(&b.0));
    workers.counts = sum.counters();
}

fn said(conditions: &[Condition], kind: &str) -> Option<ReportedCondition> {
    find(conditions, kind).map(|condition| ReportedCondition {
        truth: if condition.status == "True" { Truth::True } else { Truth::False },
        reason: condition.reason.clone(),
        message: condition.message.clone(),
    })
}

#[derive(Default)]
struct Sum {
    counts: [i32; 5],
    any: bool,
}

impl Sum {
    fn add(&mut self, counts: [i32; 5]) {
        self.any = true;
        for (sum, count) in self.counts.iter_mut().zip(counts) {
            *sum = sum.saturating_add(count);
        }
    }

    fn counters(&self) -> WorkersStatus {
        let [desired, replicas, up_to_date, ready, available] =
            self.counts.map(|count| self.any.then_some(count));
        WorkersStatus {
            desired_replicas: desired,
            replicas,
            up_to_date_replicas: up_to_date,
            ready_replicas: ready,
            available_replicas: available,
        }
    }
}
