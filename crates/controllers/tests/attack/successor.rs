//! An object of the name of one that is gone: a cache that is behind does not make it inherit a status.

use std::time::Duration;

use capt_api::workspace::{WorkspaceTemplateApply, WorkspaceTemplateApplyStatus};
use capt_controllers::runtime::status::StatusWriter;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt};

/// Whatever its status said would count as the new one's: an apply that nobody knows of.
#[tokio::test]
async fn a_status_of_an_object_that_is_gone_is_not_its_successors() {
    let server = capt_apiserver::Server::in_memory().await.unwrap();
    let client = server.client("default");
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in capt_api::crds() {
        definitions.create(&PostParams::default(), &definition).await.unwrap();
    }
    let api: Api<WorkspaceTemplateApply> = Api::default_namespaced(client.clone());
    let spec = serde_json::from_value(serde_json::json!({"templateRef": {"name": "t"}})).unwrap();
    let object = WorkspaceTemplateApply::new("a", spec);
    let create = async || api.create(&PostParams::default(), &object).await.ok();
    let mut before = capt_e2e::until("it is served", Duration::from_secs(60), create).await.unwrap();
    let uid = before.uid();
    let writer = StatusWriter::<WorkspaceTemplateApplyStatus>::new("capt-workspaces");
    let status =
        WorkspaceTemplateApplyStatus { resources: Some(1), ..WorkspaceTemplateApplyStatus::default() };
    before.metadata.deletion_timestamp = Some(Time("2026-01-01T00:00:00Z".parse().unwrap()));
    writer.write(&client, &before, None, status.clone()).await.unwrap();
    assert_eq!(
        api.get("a").await.unwrap().status.and_then(|status| status.resources),
        Some(1),
        "it is there"
    );

    api.delete("a", &DeleteParams::background()).await.unwrap();
    writer.write(&client, &before, None, status.clone()).await.unwrap();
    let after = create().await.unwrap();
    assert_ne!(after.uid(), uid);
    writer.write(&client, &before, None, status).await.unwrap();
    assert_eq!(api.get("a").await.unwrap().status, after.status, "it is another one's");
}
