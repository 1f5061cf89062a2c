//! Checks of the API: CRDs, permissions, and a running controller.

use capt_api::crd::{cluster_kind, is_installed};
use capt_controllers::cluster::core::install;
use jiff::Timestamp;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt};

use super::super::client::{Connection, in_words};
use super::super::controller::LEASE;
use super::super::table;
use super::super::tenants::{self, CrossNamespace};
use super::{CheckFinding, CheckStatus};

const INSTALL: &str = "capt crds | kubectl apply --server-side -f -";

pub async fn look(connection: &Connection) -> Vec<CheckFinding> {
    let Connection { address, version, origin, .. } = connection;
    let mut findings = vec![CheckFinding::ok("api", format!("{address} {version} ({origin})"))];
    findings.push(crds(connection).await);
    findings.push(clusters(connection).await);
    findings.push(permissions(connection).await);
    let leases = leases(connection).await;
    findings.push(controller(&leases));
    findings.extend(namespaces(connection, &leases).await);
    findings
}

async fn crds(connection: &Connection) -> CheckFinding {
    let api: Api<CustomResourceDefinition> = Api::all(connection.client.clone());
    let (mut missing, mut other) = (Vec::new(), Vec::new());
    let wanted = capt_api::crds();
    for crd in &wanted {
        match api.get_opt(&crd.name_any()).await {
            Ok(None) => missing.push(crd.spec.names.plural.clone()),
            Ok(Some(found)) if !is_installed(&found, crd) => other.push(crd.spec.names.plural.clone()),
            Ok(Some(_)) => {}
            Err(error) => {
                return CheckFinding::warn(
                    "crds",
                    format!("cannot be read: {}", in_words(error)),
                    "ask for the right to get customresourcedefinitions",
                );
            }
        }
    }
    if !missing.is_empty() {
        return CheckFinding::fail("crds", format!("not installed: {}", missing.join(", ")), INSTALL);
    }
    if !other.is_empty() {
        return CheckFinding::warn(
            "crds",
            format!("not those of this version: {}", other.join(", ")),
            INSTALL,
        );
    }
    CheckFinding::ok("crds", format!("{} installed, as this version has them", wanted.len()))
}

async fn clusters(connection: &Connection) -> CheckFinding {
    let api: Api<CustomResourceDefinition> = Api::all(connection.client.clone());
    match api.get_opt(install::NAME).await {
        Ok(None) => CheckFinding::warn(
            "clusters",
            "no Cluster kind: neither Cluster API core nor CAPT's own is installed",
            "capt up brings it, or capt controller --cluster-api own; for machines and workspaces alone it is not needed",
        ),
        Ok(Some(found)) if !install::is_ours(&found) => CheckFinding::ok("clusters", "Cluster API core's"),
        Ok(Some(found)) if is_installed(&found, &cluster_kind().crd) => {
            CheckFinding::ok("clusters", "CAPT's own")
        }
        Ok(Some(_)) => CheckFinding::warn(
            "clusters",
            "CAPT's own, of another version",
            "start the controller of this version: it brings it up to date",
        ),
        Err(error) => CheckFinding::warn(
            "clusters",
            in_words(error).to_string(),
            "ask for the right to get customresourcedefinitions",
        ),
    }
}

/// Verb, group, resource and subresource of what the commands do.
const RIGHTS: [(&str, &str, &str, &str); 11] = [
    ("list", "infrastructure.cluster.x-k8s.io", "workspacetemplateapplies", ""),
    ("watch", "infrastructure.cluster.x-k8s.io", "workspacetemplateapplies", ""),
    ("patch", "infrastructure.cluster.x-k8s.io", "workspacetemplateapplies", ""),
    ("create", "infrastructure.cluster.x-k8s.io", "workspacetemplateapplies", ""),
    ("delete", "infrastructure.cluster.x-k8s.io", "workspacetemplateapplies", ""),
    ("patch", "infrastructure.cluster.x-k8s.io", "captmachinedeployments", "scale"),
    ("list", "infrastructure.cluster.x-k8s.io", "captmachines", ""),
    ("list", "controlplane.cluster.x-k8s.io", "captcontrolplanes", ""),
    ("delete", "cluster.x-k8s.io", "clusters", ""),
    ("get", "", "secrets", ""),
    ("list", "", "events", ""),
];

async fn permissions(connection: &Connection) -> CheckFinding {
    let api: Api<SelfSubjectAccessReview> = Api::all(connection.client.clone());
    let mut refused = Vec::new();
    for (verb, group, resource, subresource) in RIGHTS {
        let attributes = ResourceAttributes {
            namespace: Some(connection.namespace.clone()),
            verb: Some(verb.to_owned()),
            group: Some(group.to_owned()),
            resource: Some(resource.to_owned()),
            subresource: Some(subresource.to_owned()).filter(|name| !name.is_empty()),
            ..ResourceAttributes::default()
        };
        let spec =
            SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
        let review = SelfSubjectAccessReview { spec, ..Default::default() };
        match api.create(&PostParams::default(), &review).await {
            Ok(answer) if answer.status.as_ref().is_some_and(|status| status.allowed) => {}
            Ok(_) => refused.push(format!(
                "{verb} {resource}{}{subresource}",
                if subresource.is_empty() { "" } else { "/" }
            )),
            Err(error) => {
                return CheckFinding::warn(
                    "permissions",
                    format!("cannot be asked for: {}", in_words(error)),
                    "try what you want to do",
                );
            }
        }
    }
    if refused.is_empty() {
        return CheckFinding::ok(
            "permissions",
            format!("all that commands need in namespace {}", connection.namespace),
        );
    }
    CheckFinding::warn(
        "permissions",
        format!("not allowed in namespace {}: {}", connection.namespace, refused.join(", ")),
        "ask the administrator of this API for a role, or choose another user with --context",
    )
}

async fn leases(connection: &Connection) -> Result<Vec<Lease>, String> {
    let api: Api<Lease> = Api::all(connection.client.clone());
    let named = ListParams::default().fields(&format!("metadata.name={LEASE}"));
    let found = api.list(&named).await;
    found.map(|leases| leases.items).map_err(|error| in_words(error).to_string())
}

/// One line where no controller works on an API.
pub async fn missing_controller(connection: &Connection) -> Option<String> {
    let finding = controller(&leases(connection).await);
    (finding.verdict == CheckStatus::Fail)
        .then(|| format!("no controller runs ({}): {}", finding.message, finding.todo.unwrap_or_default()))
}

fn controller(leases: &Result<Vec<Lease>, String>) -> CheckFinding {
    let leases = match leases {
        Ok(leases) => leases,
        Err(error) => {
            return CheckFinding::warn("controller", error, "ask for the right to list leases");
        }
    };
    let now = Timestamp::now();
    let last = leases.iter().filter_map(held).max_by_key(|held| held.renewed);
    match last {
        Some(held) if held.holder.is_empty() || now.duration_since(held.renewed).as_secs() > held.lasts => {
            CheckFinding::fail(
                "controller",
                format!(
                    "none works on this API; the last one was seen {} ago",
                    table::age(held.renewed, now)
                ),
                "start it: capt up, or capt controller",
            )
        }
        Some(held) => CheckFinding::ok(
            "controller",
            format!("{}, seen {} ago", held.holder, table::age(held.renewed, now)),
        ),
        None => CheckFinding::fail(
            "controller",
            "none has ever worked on this API",
            "start one: capt up, or capt controller",
        ),
    }
}

/// Checks if the running controller isolates namespaces; `None` if no controller says so.
async fn namespaces(connection: &Connection, leases: &Result<Vec<Lease>, String>) -> Option<CheckFinding> {
    let last = leases.iter().flatten().max_by_key(|lease| held(lease).map(|held| held.renewed))?;
    if CrossNamespace::told(last)? == CrossNamespace::Granted {
        let message = "references into another namespace need a ReferenceGrant there";
        return Some(CheckFinding::ok("namespaces", message));
    }
    let open = "references into other namespaces are open: every user who may write a WorkspaceTemplateApply can read every Secret";
    let others = match tenants::other_users(&connection.client).await {
        Ok(others) if others.is_empty() => {
            return Some(CheckFinding::ok(
                "namespaces",
                format!("{open}; the administrator is the only user"),
            ));
        }
        Ok(others) => format!("; and rights are given to others: {}", others.join(", ")),
        Err(_) => "; who else has rights cannot be read".to_owned(),
    };
    let todo =
        "start the controller with --cross-namespace granted, and write the grants that its conditions name";
    Some(CheckFinding::warn("namespaces", format!("{open}{others}"), todo))
}

/// Holder of a Lease, and its last renewal.
struct Held {
    holder: String,
    renewed: Timestamp,
    lasts: i64,
}

fn held(lease: &Lease) -> Option<Held> {
    let spec = lease.spec.as_ref()?;
    Some(Held {
        holder: spec.holder_identity.clone().unwrap_or_default(),
        renewed: spec.renew_time.as_ref()?.0,
        lasts: spec.lease_duration_seconds.unwrap_or_default().into(),
    })
}
