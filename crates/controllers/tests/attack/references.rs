//! Every reference that can name another namespace: refused, granted, held again, and no grant is needed to go.
//!
//! The test follows only what the conditions say: it applies the grant of each message as it is, until the object is ready.

use capt_api::grant::ReferenceGrant;
use futures::future::join_all;
use serde_json::{Value, json};

use crate::borders::{Borders, condition, refusal};
use crate::fixture::Harness;

/// One reference.
pub struct Case {
    pub name: &'static str,
    /// Paths of the CRDs that it attacks.
    pub paths: &'static [&'static str],
    /// Objects in the vault: kind, name and content.
    vault: Vec<(&'static str, &'static str, Value)>,
    /// Objects of the tenant; the last one refers.
    tenant: Vec<(&'static str, &'static str, Value)>,
    /// Grants that it takes: from, to, name, and whether it is written to.
    grants: Vec<(&'static str, &'static str, &'static str, bool)>,
    /// The workspace that is held when the grants are gone, where that is not the object that refers.
    child: Option<&'static str>,
}

const APPLY: &str = "WorkspaceTemplateApply";
const TEMPLATE: &str = "WorkspaceTemplate";
const CONFIG: &str = "WorkspaceProviderConfig";

const MODULE: &str = r#"
variable "name" { default = "x" }
variable "size" { default = 1 }
variable "token" {
  default   = "none"
  sensitive = true
}
resource "terraform_data" "thing" { input = var.size }
output "label" { value = "${var.name}-${var.size}" }
"#;

/// A template with more than a module.
fn template(rest: &Value) -> Value {
    let mut spec = json!({"module": MODULE});
    spec.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    json!({"spec": {"template": {"spec": spec}}})
}

/// A template in the long form.
fn long(rest: &Value) -> Value {
    let mut spec = json!({"source": "Inline", "module": MODULE});
    spec.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    json!({"spec": {"template": {"spec": {"forProvider": spec}}}})
}

/// An instance of the tenant's own template, and more.
fn instance(rest: &Value) -> Value {
    let mut spec = json!({"templateRef": {"name": "own"}});
    spec.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    json!({"spec": spec})
}

fn secret() -> (&'static str, &'static str, Value) {
    ("Secret", "keys", json!({"stringData": {"token": "hunter-two", "file": "token = \"hunter-two\"\n"}}))
}

fn settings() -> (&'static str, &'static str, Value) {
    ("ConfigMap", "settings", json!({"data": {"name": "quiet", "file": "name = \"quiet\"\n"}}))
}

fn built() -> Vec<(&'static str, &'static str, Value)> {
    vec![(TEMPLATE, "own", template(&json!({}))), (APPLY, "built", instance(&json!({})))]
}

impl Case {
    /// The tenant's instance refers by itself.
    fn direct(
        name: &'static str,
        paths: &'static [&'static str],
        vault: Vec<(&'static str, &'static str, Value)>,
        rest: &Value,
        to: (&'static str, &'static str, bool),
    ) -> Self {
        let tenant = vec![(TEMPLATE, "own", template(&json!({}))), (APPLY, "a", instance(rest))];
        Self { name, paths, vault, tenant, grants: vec![(APPLY, to.0, to.1, to.2)], child: None }
    }

    /// The tenant's template refers.
    fn templated(
        name: &'static str,
        paths: &'static [&'static str],
        vault: Vec<(&'static str, &'static str, Value)>,
        template: Value,
        to: (&'static str, &'static str, bool),
    ) -> Self {
        let tenant = vec![(TEMPLATE, "own", template), (APPLY, "a", instance(&json!({})))];
        Self { name, paths, vault, tenant, grants: vec![(APPLY, to.0, to.1, to.2)], child: None }
    }
}

/// All of them, for a vault of this name.
pub fn cases(vault: &dyn Fn(&str) -> String) -> Vec<Case> {
    let mut all = direct(vault);
    all.extend(templated(vault));
    all.extend(shared(vault));
    all.extend(owned(vault));
    all
}

fn direct(vault: &dyn Fn(&str) -> String) -> Vec<Case> {
    let at = |case: &str, name: &str| json!({"name": name, "namespace": vault(case)});
    vec![
        Case {
            name: "template",
            paths: &["WorkspaceTemplateApply.spec.templateRef"],
            vault: vec![(TEMPLATE, "shared", template(&json!({})))],
            tenant: vec![(APPLY, "a", json!({"spec": {"templateRef": at("template", "shared")}}))],
            grants: vec![(APPLY, TEMPLATE, "shared", false)],
            child: None,
        },
        Case::direct(
            "from-secret",
            &["WorkspaceTemplateApply.spec.variablesFrom[].secretRef"],
            vec![secret()],
            &json!({"variablesFrom": [{"secretRef": at("from-secret", "keys"), "map": {"token": "token"}}]}),
            ("Secret", "keys", false),
        ),
        // A refusal is no absence: what is optional is not left out silently.
        Case::direct(
            "from-map",
            &["WorkspaceTemplateApply.spec.variablesFrom[].configMapRef"],
            vec![settings()],
            &json!({"variablesFrom": [{"configMapRef": at("from-map", "settings"), "map": {"name": "name"}, "optional": true}]}),
            ("ConfigMap", "settings", false),
        ),
        Case::direct(
            "from-outputs",
            &["WorkspaceTemplateApply.spec.variablesFrom[].workspaceRef"],
            built(),
            &json!({"variablesFrom": [{"workspaceRef": at("from-outputs", "built"), "map": {"name": "label"}}]}),
            (APPLY, "built", false),
        ),
        Case::direct(
            "wait-secret",
            &["WorkspaceTemplateApply.spec.waitForSecret"],
            vec![secret()],
            &json!({"waitForSecret": at("wait-secret", "keys")}),
            ("Secret", "keys", false),
        ),
        Case::direct(
            "wait-secrets",
            &["WorkspaceTemplateApply.spec.waitForSecrets[]"],
            vec![secret()],
            &json!({"waitForSecrets": [at("wait-secrets", "keys")]}),
            ("Secret", "keys", false),
        ),
        Case::direct(
            "wait-workspaces",
            &["WorkspaceTemplateApply.spec.waitForWorkspaces[]"],
            built(),
            &json!({"waitForWorkspaces": [at("wait-workspaces", "built")]}),
            (APPLY, "built", false),
        ),
        Case::direct(
            "write",
            &["WorkspaceTemplateApply.spec.writeConnectionSecretToRef"],
            Vec::new(),
            &json!({"writeConnectionSecretToRef": at("write", "out")}),
            ("Secret", "out", true),
        ),
    ]
}

fn templated(vault: &dyn Fn(&str) -> String) -> Vec<Case> {
    let key = |case: &str, name: &str, key: &str| json!({"name": name, "namespace": vault(case), "key": key});
    let at = |case: &str, name: &str| json!({"name": name, "namespace": vault(case)});
    let mut outer = template(&json!({}));
    outer["spec"]["writeConnectionSecretToRef"] = at("outer-write", "out");
    vec![
        Case::templated(
            "file-secret",
            &["WorkspaceTemplate.spec.template.spec.forProvider.varFiles[].secretKeyRef"],
            vec![secret()],
            long(
                &json!({"varFiles": [{"source": "SecretKey", "secretKeyRef": key("file-secret", "keys", "file")}]}),
            ),
            ("Secret", "keys", false),
        ),
        Case::templated(
            "file-map",
            &["WorkspaceTemplate.spec.template.spec.forProvider.varFiles[].configMapKeyRef"],
            vec![settings()],
            long(
                &json!({"varFiles": [{"source": "ConfigMapKey", "configMapKeyRef": key("file-map", "settings", "file")}]}),
            ),
            ("ConfigMap", "settings", false),
        ),
        Case::templated(
            "env-secret",
            &["WorkspaceTemplate.spec.template.spec.forProvider.env[].secretKeyRef"],
            vec![secret()],
            long(&json!({"env": [{"name": "THEIRS", "secretKeyRef": key("env-secret", "keys", "token")}]})),
            ("Secret", "keys", false),
        ),
        Case::templated(
            "env-map",
            &["WorkspaceTemplate.spec.template.spec.forProvider.env[].configMapKeyRef"],
            vec![settings()],
            long(
                &json!({"env": [{"name": "THEIRS", "configMapKeyRef": key("env-map", "settings", "name")}]}),
            ),
            ("ConfigMap", "settings", false),
        ),
        Case::templated(
            "inner-write",
            &["WorkspaceTemplate.spec.template.spec.writeConnectionSecretToRef"],
            Vec::new(),
            template(&json!({"writeConnectionSecretToRef": at("inner-write", "out")})),
            ("Secret", "out", true),
        ),
        Case::templated(
            "outer-write",
            &["WorkspaceTemplate.spec.writeConnectionSecretToRef"],
            Vec::new(),
            outer,
            ("Secret", "out", true),
        ),
    ]
}

/// What passes through objects of other kinds or namespaces: who asks then.
fn shared(vault: &dyn Fn(&str) -> String) -> Vec<Case> {
    let at = |case: &str, name: &str| json!({"name": name, "namespace": vault(case)});
    let credential =
        |reference: Value| json!({"spec": {"credentials": [{"env": "TOKEN", "secretRef": reference}]}});
    vec![
        // The tenant's own config asks for the vault's Secret.
        Case {
            name: "credentials",
            paths: &["WorkspaceProviderConfig.spec.credentials[].secretRef"],
            vault: vec![secret()],
            tenant: vec![
                (
                    CONFIG,
                    "cloud",
                    credential(json!({"name": "keys", "namespace": vault("credentials"), "key": "token"})),
                ),
                (TEMPLATE, "own", template(&json!({"providerConfigRef": {"name": "cloud"}}))),
                (APPLY, "a", instance(&json!({}))),
            ],
            grants: vec![(CONFIG, "Secret", "keys", false)],
            child: None,
        },
        // The vault's config, through the vault's template: a template is no way around, and the use of credentials is no
        // right to read them.
        Case {
            name: "shared-config",
            paths: &["WorkspaceTemplate.spec.template.spec.providerConfigRef"],
            vault: vec![
                secret(),
                (CONFIG, "cloud", credential(json!({"name": "keys", "key": "token"}))),
                (TEMPLATE, "shared", template(&json!({"providerConfigRef": {"name": "cloud"}}))),
            ],
            tenant: vec![(APPLY, "a", json!({"spec": {"templateRef": at("shared-config", "shared")}}))],
            grants: vec![(APPLY, TEMPLATE, "shared", false), (APPLY, CONFIG, "cloud", false)],
            child: None,
        },
        // The vault's template names the vault's Secret: the tenant receives it, so the tenant asks.
        Case {
            name: "shared-file",
            paths: &[],
            vault: vec![
                secret(),
                (
                    TEMPLATE,
                    "shared",
                    long(&json!({"varFiles": [{
                        "source": "SecretKey",
                        "secretKeyRef": {"name": "keys", "namespace": vault("shared-file"), "key": "file"},
                    }]})),
                ),
            ],
            tenant: vec![(APPLY, "a", json!({"spec": {"templateRef": at("shared-file", "shared")}}))],
            grants: vec![(APPLY, TEMPLATE, "shared", false), (APPLY, "Secret", "keys", false)],
            child: None,
        },
        // Names that are put together from variables.
        Case {
            name: "filled-in",
            paths: &[],
            vault: vec![secret()],
            tenant: vec![
                (
                    TEMPLATE,
                    "own",
                    long(&json!({
                        "vars": [{"key": "name", "value": "x"}],
                        "varFiles": [{
                            "source": "SecretKey",
                            "secretKeyRef": {"name": "${which}", "namespace": "${where}", "key": "file"},
                        }],
                    })),
                ),
                (APPLY, "a", instance(&json!({"variables": {"which": "keys", "where": vault("filled-in")}}))),
            ],
            grants: vec![(APPLY, "Secret", "keys", false)],
            child: None,
        },
    ]
}

/// Objects that have a workspace made for them: the workspace asks.
fn owned(vault: &dyn Fn(&str) -> String) -> Vec<Case> {
    let at = |case: &str, name: &str| json!({"name": name, "namespace": vault(case)});
    let shared = || (TEMPLATE, "shared", template(&json!({})));
    let machine = |template: Value, group: Value| json!({"spec": {"workspaceTemplateRef": template, "nodeGroupRef": group, "instanceType": "small"}});
    vec![
        Case {
            name: "group",
            paths: &["NodeGroup.spec.workspaceTemplateRef"],
            vault: vec![shared()],
            tenant: vec![(
                "NodeGroup",
                "workers",
                json!({"spec": {"workspaceTemplateRef": at("group", "shared")}}),
            )],
            grants: vec![(APPLY, TEMPLATE, "shared", false)],
            child: Some("workers-nodegroup"),
        },
        Case {
            name: "machine",
            paths: &[
                "CaptMachine.spec.workspaceTemplateRef",
                "CaptMachineTemplate.spec.template.spec.workspaceTemplateRef",
                "CaptMachineSet.spec.template.spec.workspaceTemplateRef",
                "CaptMachineDeployment.spec.template.spec.workspaceTemplateRef",
            ],
            vault: vec![shared()],
            tenant: vec![("CaptMachine", "m", machine(at("machine", "shared"), json!({"name": "old"})))],
            grants: vec![(APPLY, TEMPLATE, "shared", false)],
            child: Some("m-machine"),
        },
        Case {
            name: "joins",
            paths: &[
                "CaptMachine.spec.nodeGroupRef",
                "CaptMachineTemplate.spec.template.spec.nodeGroupRef",
                "CaptMachineSet.spec.template.spec.nodeGroupRef",
                "CaptMachineDeployment.spec.template.spec.nodeGroupRef",
            ],
            vault: vec![("NodeGroup", "workers", json!({"spec": {"external": {"name": "ng-1"}}}))],
            tenant: vec![
                (TEMPLATE, "own", template(&json!({}))),
                ("CaptMachine", "m", machine(json!({"name": "own"}), at("joins", "workers"))),
            ],
            grants: vec![("CaptMachine", "NodeGroup", "workers", false)],
            child: None,
        },
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_is_refused_then_granted_then_held() {
    if !crate::can_run() {
        return;
    }
    let harness = Harness::embedded().await;
    let all = cases(&|case| format!("{case}-vault"));
    join_all(all.iter().map(|case| attack(&harness, case))).await;
}

async fn attack(harness: &Harness, case: &Case) {
    let borders = Borders::new(&harness.client, case.name).await;
    for (namespace, objects) in [(&borders.vault, &case.vault), (&borders.tenant, &case.tenant)] {
        for (kind, name, content) in objects {
            borders.put(namespace, kind, name, content).await;
        }
    }
    let (kind, name, _) = case.tenant.last().unwrap();
    let grants = granted(&borders, case, kind, name).await;
    let before = borders.when(kind, name, "ready", |object| Some(object.clone())).await;
    if case.grants.iter().any(|(.., written)| *written) {
        borders.api(&borders.vault, "Secret").get("out").await.expect("the outputs are there");
    }

    // Revoked: what stands stays, and no change reaches it.
    for grant in &grants {
        borders.revoke(grant).await;
    }
    let held = case.child.unwrap_or(name);
    let held_kind = if case.child.is_some() { APPLY } else { kind };
    if *kind == APPLY {
        borders.change(APPLY, name, &json!({"spec": {"variables": {"size": 2}}})).await;
    }
    let object =
        borders.when(held_kind, held, "held", |object| refusal(object).map(|_| object.clone())).await;
    if *kind == APPLY {
        assert_eq!(object["status"]["outputs"], before["status"]["outputs"], "{}", case.name);
        let revision = "lastAppliedRevision";
        assert_eq!(object["status"][revision], before["status"][revision], "{}: nothing ran", case.name);
        // And again.
        for grant in &grants {
            borders.grant(grant).await;
        }
        let changed = |object: &Value| {
            let label = object["status"]["outputs"]["label"].as_str()?;
            (condition(object, "Ready")["status"] == "True" && label.ends_with("-2")).then_some(())
        };
        borders.when(APPLY, name, "changed", changed).await;
        for grant in &grants {
            borders.revoke(grant).await;
        }
    }

    // No grant is needed to go: inputs are kept.
    borders.delete(&borders.tenant, kind, name).await;
    borders.gone(&borders.tenant, kind, name).await;
    if case.grants.iter().any(|(.., written)| *written) {
        borders.gone(&borders.vault, "Secret", "out").await;
    }
}

/// Follows the messages until the object is ready: the grants that it took.
async fn granted(borders: &Borders, case: &Case, kind: &str, name: &str) -> Vec<ReferenceGrant> {
    let mut grants = Vec::new();
    while let Some(grant) = borders.asked(kind, name, &grants).await {
        assert!(grants.len() < case.grants.len(), "{}: one too many: {grant:?}", case.name);
        assert_eq!(grant.metadata.namespace.as_ref(), Some(&borders.vault), "{}", case.name);
        let (from, to, target, written) = case.grants[grants.len()];
        let mut expected = json!({
            "from": [{"group": "infrastructure.cluster.x-k8s.io", "kind": from, "namespace": borders.tenant}],
            "to": [{"group": if matches!(to, "Secret" | "ConfigMap") { "" } else { "infrastructure.cluster.x-k8s.io" }, "kind": to, "name": target}],
        });
        if written {
            expected["to"][0]["access"] = json!("Write");
        }
        assert_eq!(serde_json::to_value(&grant.spec).unwrap(), expected, "{}", case.name);
        let looked = borders.api(&borders.tenant, kind).get(name).await.unwrap();
        let looked = serde_json::to_value(&looked).unwrap();
        assert!(looked["status"]["outputs"].is_null(), "{}: nothing was built: {looked:#}", case.name);
        if written {
            let found = borders.api(&borders.vault, "Secret").get_opt(target).await.unwrap();
            assert!(found.is_none(), "{}: nothing is written", case.name);
        }
        borders.grant(&grant).await;
        grants.push(grant);
    }
    assert_eq!(grants.len(), case.grants.len(), "{}: it took fewer", case.name);
    grants
}
