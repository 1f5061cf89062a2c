//! Approvals: who gave one, and that it is used once.

use capt_api::names::{APPROVER, annotations};
use capt_api::workspace::WorkspaceTemplateApply;
use capt_planner::workspace::Approved;
use capt_terraform::order::{Operation, PlanId};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::{Api, ResourceExt};
use serde_json::{Map, Value, json};

use super::super::context::{MANAGER, WorkspaceContext};
use super::act::patch_metadata;
use super::observe::ObservedWorkspace;
use crate::runtime::Error;
use crate::runtime::events::Note;
use crate::runtime::status::PATIENCE;

/// Takes off the approval that a run is about to use, and notes whose it was. What is noted counts as an approval of that plan, so
/// that none is lost where the run does not begin.
pub async fn use_up(
    context: &WorkspaceContext,
    observed: &ObservedWorkspace,
    operation: &Operation,
) -> Result<(), Error> {
    let Operation::ApplyPlan(plan) = operation else { return Ok(()) };
    let given = observed.asked.approve.as_deref() == Some(plan.as_str());
    if !given && !observed.asked.approves(plan.as_str()) {
        return Ok(());
    }
    let annotation = if given { annotations::APPROVE } else { annotations::APPROVED };
    let giver = giver(context, &observed.object, annotation).await?;
    // Noted before. A note of somebody else is that one's approval, whomever it names.
    if !given && giver.as_deref() == Some(MANAGER) {
        return Ok(());
    }
    let by = in_words(giver.as_deref());
    let approved = Approved { plan: plan.to_string(), by };
    let notes = json!({ annotations::APPROVE: null, annotations::APPROVED: approved.written() });
    let metadata: Map<String, Value> = [("annotations".to_owned(), notes)].into_iter().collect();
    patch_metadata(context, &observed.object, metadata).await?;
    let text = format!("{} was approved by {}", described(observed, plan), approved.by);
    context.events.publish(observed.object.as_ref(), &Note::normal("PlanApproved", "Approve", text).always());
    Ok(())
}

fn described(observed: &ObservedWorkspace, id: &PlanId) -> String {
    match observed.view.plan.as_ref().filter(|plan| plan.id == *id) {
        Some(plan) => {
            format!("plan {id} ({} to add, {} to change, {} to destroy)", plan.add, plan.change, plan.destroy)
        }
        None => format!("plan {id}"),
    }
}

/// Returns the author of an annotation of an object. Asked of the API, since caches keep no managed fields.
async fn giver(
    context: &WorkspaceContext,
    object: &WorkspaceTemplateApply,
    annotation: &str,
) -> Result<Option<String>, Error> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let api: Api<WorkspaceTemplateApply> = Api::namespaced(context.client.clone(), &namespace);
    let attempt = || format!("read metadata of WorkspaceTemplateApply {namespace}/{name}");
    let answer = tokio::time::timeout(PATIENCE, api.get_metadata(&name)).await;
    let found = answer.map_err(|_| Error::Slow(attempt()))?.map_err(Error::api(attempt()))?;
    Ok(writer(found.metadata.managed_fields.as_deref().unwrap_or_default(), annotation))
}

/// The field manager that wrote an annotation last.
fn writer(fields: &[ManagedFieldsEntry], annotation: &str) -> Option<String> {
    let key = format!("f:{annotation}");
    let wrote = |entry: &&ManagedFieldsEntry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        fields.is_some_and(|fields| fields["f:metadata"]["f:annotations"].get(&key).is_some())
    };
    let last = fields.iter().filter(wrote).max_by_key(|entry| entry.time.as_ref().map(|time| time.0))?;
    last.manager.clone().filter(|manager| !manager.is_empty())
}

/// A field manager in words.
fn in_words(manager: Option<&str>) -> String {
    match manager.map(|manager| (manager, manager.strip_prefix(APPROVER))) {
        Some((_, Some(user))) => format!("{user} with capt approve"),
        Some((manager, None)) => format!("field manager {manager}"),
        None => "an unknown writer".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, second: u8, fields: &Value) -> ManagedFieldsEntry {
        let entry = json!({
            "manager": manager, "operation": "Update", "apiVersion": "x/v1", "fieldsType": "FieldsV1",
            "time": format!("2026-11-18T00:00:{second:02}Z"), "fieldsV1": fields,
        });
        serde_json::from_value(entry).expect("an entry")
    }

    #[test]
    fn the_last_writer_of_the_annotation_gave_the_approval() {
        let approval = json!({"f:metadata": {"f:annotations": {format!("f:{}", annotations::APPROVE): {}}}});
        let other = json!({"f:metadata": {"f:annotations": {"f:example.com/approve": {}}}, "f:spec": {}});
        let unknown = "an unknown writer";
        let rows: [(&[ManagedFieldsEntry], &str); 5] = [
            (&[], unknown),
            (&[entry("kubectl-edit", 9, &other)], unknown),
            (
                &[entry("kubectl-annotate", 1, &approval), entry("kubectl-edit", 9, &other)],
                "field manager kubectl-annotate",
            ),
            (
                &[entry("capt-approve/alice", 5, &approval), entry("flux", 2, &approval)],
                "alice with capt approve",
            ),
            (&[entry("", 5, &approval)], unknown),
        ];
        for (fields, expected) in rows {
            let writer = writer(fields, annotations::APPROVE);
            assert_eq!(in_words(writer.as_deref()), expected, "{fields:?}");
        }
    }
}
