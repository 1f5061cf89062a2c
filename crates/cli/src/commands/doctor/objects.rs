//! Checks of objects: credentials that exist, deletions that make progress, workspaces that do not fail.

use std::collections::BTreeMap;
use std::fmt::Debug;

use capt_api::cluster::CAPTControlPlane;
use capt_api::conditions::types;
use capt_api::workspace::{WorkspaceProviderConfig, WorkspaceTemplateApply};
use capt_planner::conditions::find;
use capt_terraform::inspect::Inspection;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DynamicObject, ListParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::client::{Connection, in_words};
use super::super::object::{Reference, ResourceKind};
use super::super::{place, table};
use super::CheckFinding;

/// A deletion that takes longer is worth a look.
const LONG: i64 = 60;

pub async fn look(connection: &Connection, namespace: Option<&str>) -> Vec<CheckFinding> {
    let configs = list(connection, namespace).await;
    let mut findings = credentials(connection, &configs).await;
    findings.extend(mirrors(connection, &configs));
    findings.extend(deletions(connection, namespace).await);
    let workspaces: Vec<WorkspaceTemplateApply> = list(connection, namespace).await;
    findings.extend(super::workspaces::judge(&workspaces, namespace.is_none()));
    findings.extend(super::drift::judge(&workspaces));
    findings.extend(silent(&list(connection, namespace).await));
    findings
}

/// The objects of a kind. Without the kind there is nothing to check; the CRDs are checked by themselves.
async fn list<K>(connection: &Connection, namespace: Option<&str>) -> Vec<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let client = connection.client.clone();
    let api: Api<K> = match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    api.list(&ListParams::default()).await.map(|listed| listed.items).unwrap_or_default()
}

/// Control planes that were asked, and did not answer as they should.
fn silent(planes: &[CAPTControlPlane]) -> Vec<CheckFinding> {
    let findings = planes.iter().filter_map(|plane| {
        let conditions = plane.status.as_ref().map(|status| status.conditions.as_slice());
        let probe = find(conditions.unwrap_or_default(), types::REMOTE_CONNECTION_PROBE)?;
        let name = plane.name_any();
        (probe.status == "False").then(|| {
            CheckFinding::warn(
                "control planes",
                format!("{name}: {}", probe.message),
                format!("see where it is, and what it said: kubectl describe captcontrolplane {name}"),
            )
        })
    });
    findings.collect()
}

/// Folders of plugins that are named, where the controller is on this machine.
fn mirrors(connection: &Connection, configs: &[WorkspaceProviderConfig]) -> Vec<CheckFinding> {
    let engine = connection.folder.as_deref().and_then(|folder| Inspection::to(&place::engine(folder)));
    if engine.is_none() {
        return Vec::new();
    }
    let named = configs.iter().filter_map(|config| {
        let mirror = config.spec.plugins.as_ref()?.mirror.as_ref()?;
        let name = format!("{}/{}", config.namespace().unwrap_or_default(), config.name_any());
        Some(match std::fs::read_dir(mirror) {
            Ok(_) => CheckFinding::ok("plugins", format!("{name}: mirror {mirror}")),
            Err(error) => CheckFinding::fail(
                "plugins",
                format!("{name}: mirror {mirror}: {error}"),
                "fill it with terraform providers mirror, or take plugins.mirror out to download them",
            ),
        })
    });
    named.collect()
}

async fn credentials(connection: &Connection, configs: &[WorkspaceProviderConfig]) -> Vec<CheckFinding> {
    let client = connection.client.clone();
    let mut findings = Vec::new();
    for config in configs {
        let own = config.namespace().unwrap_or_default();
        let name = format!("{own}/{}", config.name_any());
        let mut secrets: BTreeMap<(String, String), Option<Secret>> = BTreeMap::new();
        let mut missing = Vec::new();
        for credential in &config.spec.credentials {
            let reference = &credential.secret_ref;
            let place = reference.namespace.clone().unwrap_or_else(|| own.clone());
            let at = (place.clone(), reference.name.clone());
            if !secrets.contains_key(&at) {
                let api: Api<Secret> = Api::namespaced(client.clone(), &place);
                match api.get_opt(&reference.name).await {
                    Ok(found) => _ = secrets.insert(at.clone(), found),
                    Err(error) => {
                        let message =
                            format!("{name}: Secret {place}/{}: {}", reference.name, in_words(error));
                        findings.push(CheckFinding::warn(
                            "credentials",
                            message,
                            "ask for the right to get secrets",
                        ));
                        continue;
                    }
                }
            }
            match secrets.get(&at).and_then(Option::as_ref) {
                None => missing.push(format!("Secret {place}/{} does not exist", reference.name)),
                Some(secret) if !has(secret, &reference.key) => {
                    missing.push(format!("Secret {place}/{} has no key {}", reference.name, reference.key));
                }
                Some(_) => {}
            }
        }
        missing.dedup();
        findings.push(if missing.is_empty() {
            let text = match config.spec.credentials.len() {
                0 => "names none".to_owned(),
                1 => "1 named, and there".to_owned(),
                count => format!("{count} named, all there"),
            };
            CheckFinding::ok("credentials", format!("{name}: {text}"))
        } else {
            let todo = "create it: kubectl create secret generic NAME --from-literal KEY=VALUE";
            CheckFinding::fail("credentials", format!("{name}: {}", missing.join("; ")), todo)
        });
    }
    findings
}

fn has(secret: &Secret, key: &str) -> bool {
    secret.data.as_ref().is_some_and(|data| data.contains_key(key))
}

async fn deletions(connection: &Connection, namespace: Option<&str>) -> Vec<CheckFinding> {
    let now = Timestamp::now();
    let mut findings = Vec::new();
    let mut under_way = 0;
    for kind in ResourceKind::all() {
        let Ok(api) = kind.api(connection, namespace).await else { continue };
        let Ok(listed) = api.list(&ListParams::default()).await else { continue };
        for object in &listed.items {
            let Some(since) = object.metadata.deletion_timestamp.as_ref().map(|time| time.0) else {
                continue;
            };
            match stuck(object, since, now) {
                None => under_way += 1,
                Some(why) => {
                    let reference = Reference { kind, name: object.name_any() };
                    let message = format!("{reference} has been going for {}: {why}", table::age(since, now));
                    findings.push(CheckFinding::warn("deletions", message, todo(&reference, object)));
                }
            }
        }
    }
    if findings.is_empty() {
        let text = match under_way {
            0 => "none is under way".to_owned(),
            count => format!("{count} under way"),
        };
        findings.push(CheckFinding::ok("deletions", text));
    }
    findings
}

/// Reason why a deletion takes long; `None` while Terraform destroys.
fn stuck(object: &DynamicObject, since: Timestamp, now: Timestamp) -> Option<String> {
    let failed =
        object.data.pointer("/status/consecutiveFailures").and_then(Value::as_i64).unwrap_or_default();
    let stalled = condition(object, types::STALLED, Some("True"));
    let soon = now.duration_since(since).as_secs() < LONG;
    if stalled.is_none() && failed == 0 && (soon || object.data.pointer("/status/progress").is_some()) {
        return None;
    }
    let paused = condition(object, types::PAUSED, Some("True")).map(|_| "it is paused".to_owned());
    let failure = (failed > 0).then(|| object.data.pointer("/status/lastFailureMessage")?.as_str()).flatten();
    let says = condition(object, types::DELETING, Some("True")).filter(|text| !text.is_empty());
    let finalizers = || format!("held by the finalizers {}", object.finalizers().join(", "));
    let why = stalled
        .or(paused)
        .or_else(|| failure.map(|text| text.lines().next().unwrap_or_default().to_owned()))
        .or(says)
        .unwrap_or_else(finalizers);
    Some(table::plain_lines(&why))
}

fn todo(reference: &Reference, object: &DynamicObject) -> String {
    if condition(object, types::PAUSED, Some("True")).is_some() {
        return format!("capt resume {reference}");
    }
    if reference.kind.name == "WorkspaceTemplateApply" {
        return format!(
            "see why: capt logs {}; when it is put right: capt retry {}",
            reference.name, reference.name
        );
    }
    format!("see what is below it: capt status, capt events {reference}")
}

fn condition(object: &DynamicObject, kind: &str, status: Option<&str>) -> Option<String> {
    let all = object.data.pointer("/status/conditions")?.as_array()?;
    let found = all.iter().find(|condition| condition["type"] == kind)?;
    if status.is_some_and(|status| found["status"] != status) {
        return None;
    }
    Some(found["message"].as_str().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_control_plane_that_does_not_answer_is_told() {
        let plane = |probed: &str| -> CAPTControlPlane {
            let condition = json!({
                "type": "RemoteConnectionProbe", "status": probed, "reason": "R", "message": "api:443 did not answer",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            });
            serde_json::from_value(json!({
                "apiVersion": "controlplane.cluster.x-k8s.io/v1beta1", "kind": "CAPTControlPlane", "metadata": {"name": probed.to_lowercase()},
                "spec": {"version": "1.35", "workspaceTemplateRef": {"name": "x"}}, "status": {"conditions": [condition]},
            }))
            .unwrap()
        };
        let told = silent(&["True", "False", "Unknown"].map(plane));
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].message, "false: api:443 did not answer");
    }

    #[test]
    fn a_deletion_is_stuck_when_nothing_happens() {
        let object = |status: Value| -> DynamicObject {
            let metadata = json!({"name": "a", "finalizers": ["example.com/keep"]});
            serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap()
        };
        let since: Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();
        let after = |seconds: i64| Timestamp::from_second(since.as_second() + seconds).unwrap();
        let quiet = object(json!({}));
        assert_eq!(stuck(&quiet, since, after(10)), None);
        assert_eq!(stuck(&quiet, since, after(61)).unwrap(), "held by the finalizers example.com/keep");
        let busy = object(json!({"progress": {"done": 1, "total": 3}}));
        assert_eq!(stuck(&busy, since, after(3600)), None);
        let fails = object(json!({"consecutiveFailures": 2, "lastFailureMessage": "no\nmore"}));
        assert_eq!(stuck(&fails, since, after(5)).unwrap(), "no");
        let waits =
            object(json!({"conditions": [{"type": "Deleting", "status": "True", "message": "waits for b"}]}));
        assert_eq!(stuck(&waits, since, after(61)).unwrap(), "waits for b");
    }
}
