//! CAPTControlPlane: a managed control plane, with a workspace of its own.
//!
//! ```text
//! observe: the control plane, its Cluster, network, workspace, workers   (observe)
//! keep:    the Secrets by which it is reached, once it can be            (cluster::access)
//! ask:     its API, whether it is ready; the answer comes later          (cluster::probe)
//! decide:  its state, and the next thing to do                            (capt_planner::cluster::control_plane; pure)
//! act:     finalizer, workspace, endpoint, the end                        (owned_workspace, cluster::act)
//! report:  the status that was decided; one write                         (here)
//! ```

mod observe;

use std::sync::Arc;
use std::time::Duration;

use capt_api::cluster::{CAPTControlPlane, CAPTControlPlaneStatus};
use capt_planner::Why;
use capt_planner::cluster::control_plane::{self, Access, ControlPlanePlan, ControlPlaneState, Probe};
use capt_planner::cluster::endpoint::show;

use super::access::{self, AccessRequest, AccessStanding};
use super::act::ClusterPartActions;
use super::context::ClusterPartContext;
use super::probe::ProbeSubject;
use crate::machines::context::CATCH_UP;
use crate::owned_workspace::OwnerChanges;
use crate::runtime::queue::Next;
use crate::runtime::status::without_messages;
use crate::runtime::{Error, Name};
use observe::Found;

/// Reconciles one control plane.
pub async fn reconcile(
    context: Arc<ClusterPartContext>,
    object: Arc<CAPTControlPlane>,
) -> Result<Next, Error> {
    let name = Name::of(object.as_ref());
    if !context.plane_writes.caught_up(&name, &context.applies, &context.writer).await? {
        return Ok(CATCH_UP);
    }
    let found = observe::observe(&context, object, name);
    let now = context.clock.now();
    let standing = Box::pin(keep(&context, &found)).await?;
    let mut observed = found.observed();
    observed.access = standing.as_ref().map(|standing| Access {
        ready: standing.secrets_ready,
        problem: standing.problem.as_ref().map(|problem| Why::new(problem.reason, problem.message.clone())),
    });
    let asked = look(&context, &found, standing.as_ref());
    observed.probe = asked.as_ref().and_then(|(probe, _)| probe.clone());
    let plan = control_plane::decide(&observed, now);
    let wake = plan.wake;
    let actions = found.actions(&context);
    let acted = actions.act(&plan.step).await?;
    let held = report(&context, &found, &actions, plan, &acted).await?;
    let again = asked.and_then(|(_, again)| again);
    let again = standing.and_then(|standing| standing.next).into_iter().chain(again).min();
    Ok(super::next(wake, now, again, held))
}

/// The last answer of its API, once there is a kubeconfig to ask it with; and the time until the next look.
fn look(
    context: &ClusterPartContext,
    found: &Found,
    standing: Option<&AccessStanding>,
) -> Option<(Option<Probe>, Option<Duration>)> {
    let observed = found.observed();
    let endpoint =
        control_plane::reachable(&observed).filter(|_| standing.is_some_and(|it| it.secrets_ready))?;
    let subject = ProbeSubject {
        cluster: Name::new(found.name.namespace.clone(), found.owner.name()?),
        endpoint: show(&endpoint),
        private: !found.object.spec.control_plane_config.endpoint_access.public,
    };
    Some(context.probes.look(&context.writer, &found.name, &subject))
}

/// Keeps the Secrets, once the control plane can be reached.
async fn keep(context: &ClusterPartContext, found: &Found) -> Result<Option<AccessStanding>, Error> {
    let observed = found.observed();
    let mut looker = context.dependents.looker(found.name.clone());
    let (Some(endpoint), Some(cluster)) = (control_plane::reachable(&observed), found.owner.name()) else {
        return Ok(None);
    };
    let Some(workspace) = &found.workspace else { return Ok(None) };
    let region = control_plane::region(&observed).ok().flatten();
    let cluster = Name::new(found.name.namespace.clone(), cluster);
    let request = AccessRequest {
        control_plane: &found.object,
        cluster: &cluster,
        workspace: found.existing.as_deref(),
        outputs: &workspace.standing.outputs,
        connection: Some(&found.connection),
        endpoint: Some(&endpoint),
        region: region.as_deref(),
    };
    access::keep(&context.access, &mut looker, &request).await.map(Some)
}

async fn report(
    context: &ClusterPartContext,
    found: &Found,
    actions: &ClusterPartActions<'_, CAPTControlPlane>,
    plan: ControlPlanePlan,
    acted: &OwnerChanges,
) -> Result<Option<Duration>, Error> {
    if acted.released {
        context.plane_status.forget(&found.name);
        context.dependents.forget(&found.name);
        context.access.forget(&found.name);
        context.probes.forget(&found.name);
        return Ok(None);
    }
    let Some(mut status) = plan.status else { return Ok(None) };
    if let Some(generation) = acted.generation {
        status.observed_generation = Some(generation);
        for condition in &mut status.conditions {
            condition.observed_generation = Some(generation);
        }
    }
    let client = context.writer.client();
    let held =
        context.plane_status.write(client, found.object.as_ref(), found.status.as_ref(), status).await?;
    if let Some(news) = plan.news.as_ref().filter(|_| held.is_none()) {
        actions.publish(news);
    }
    let running = found.workspace.as_ref().is_some_and(|workspace| workspace.ours() && workspace.running);
    if !matches!(plan.state, ControlPlaneState::Deleting(_)) {
        actions.guard_move(running).await?;
    }
    Ok(held)
}

/// A status without its details: how far its workspace is.
pub fn gist(status: &mut CAPTControlPlaneStatus) {
    without_messages(&mut status.conditions);
    status.workspace_template_status.take_if(|workspace| !workspace.ready);
    status.workspace_status.take_if(|workspace| !workspace.ready);
}
