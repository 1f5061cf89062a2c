//! The real AWS provider, where the machine has it in a plugin mirror. Plans only: there is no cloud here.

use std::{
    fs,
    path::{Path, PathBuf},
};

use capt_terraform::{
    Executor, WorkspaceStore,
    inputs::{BinaryName, Inputs, Variable},
    order::{Operation, Order, WorkspaceId},
    view::Outcome,
};

use crate::lab::{Lab, Tool, tools};

const CONFIGURATION: &str = "terraform {\n  required_providers {\n    aws = {\n      source = \"hashicorp/aws\"\n    }\n  }\n}\nprovider \"aws\" {\n  region                      = \"us-east-1\"\n  access_key                  = \"none\"\n  secret_key                  = \"none\"\n  skip_credentials_validation = true\n  skip_requesting_account_id  = true\n  skip_metadata_api_check     = true\n}\n";

fn mirror() -> Option<(Tool, PathBuf)> {
    let mirror = capt_e2e::aws_mirror()?;
    // The mirror holds what Terraform's registry has; OpenTofu asks for another registry.
    let tool = tools().into_iter().find(|tool| tool.name == BinaryName::Terraform)?;
    mirror.join("registry.terraform.io/hashicorp/aws").is_dir().then_some((tool, mirror))
}

fn inputs(lab: &Lab, mirror: &Path, text: &str) -> Inputs {
    let mut inputs = lab.inputs(text);
    inputs.configuration = Some(CONFIGURATION.to_owned());
    inputs.plugins.mirror = Some(mirror.to_owned());
    inputs
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_first_runs_share_one_init_and_the_plugin_is_hashed_once() {
    let Some((tool, mirror)) = mirror() else { return };
    let lab = Lab::new(&tool).await;
    let inputs = inputs(
        &lab,
        &mirror,
        "variable \"net\" {}\nresource \"aws_vpc\" \"a\" {\n  cidr_block = var.net\n}\n",
    );
    let names: Vec<WorkspaceId> = (0..3).map(|at| WorkspaceId::new(format!("w{at}"))).collect();
    for (at, name) in names.iter().enumerate() {
        let mut inputs = inputs.clone();
        inputs.variables.insert("net".into(), Variable::from(format!("10.{at}.0.0/16")));
        lab.engine.start_run(Order::new(name.clone(), Operation::Plan, Some(inputs))).await.expect("taken");
    }
    for name in &names {
        let planned = lab.ended(name).await;
        assert_eq!(planned.outcome, Outcome::Planned, "{planned:?}");
        let lock = fs::read_to_string(lab.folder_of(name.as_str()).join("guest/work/.terraform.lock.hcl"))
            .expect("a lock file");
        assert!(lock.contains("hashicorp/aws") && !lock.contains("hashes"), "{lock}");
    }
    assert_eq!(lab.engine.metrics().inits, 1);
}

#[tokio::test]
async fn a_state_that_needs_a_provider_has_it_installed() {
    let Some((tool, mirror)) = mirror() else { return };
    let lab = Lab::new(&tool).await;
    let state = r#"{"version":4,"terraform_version":"1.11.4","serial":1,"lineage":"l","outputs":{},"resources":[{"mode":"managed","type":"aws_vpc","name":"old","provider":"provider[\"registry.terraform.io/hashicorp/aws\"]","instances":[{"schema_version":1,"attributes":{"id":"vpc-1"}}]}]}"#;
    lab.engine.import_state(&WorkspaceId::new("a"), state.as_bytes()).await.expect("taken over");
    let mut bare = inputs(&lab, &mirror, "output \"x\" {\n  value = 1\n}\n");
    bare.configuration = None;
    bare.args.plan = vec!["-refresh=false".into()];
    for (name, value) in
        [("AWS_REGION", "us-east-1"), ("AWS_ACCESS_KEY_ID", "none"), ("AWS_SECRET_ACCESS_KEY", "none")]
    {
        bare.env
            .insert(name.into(), capt_terraform::inputs::EnvValue { value: value.into(), sensitive: false });
    }
    let planned = lab.run("a", Operation::Plan, Some(bare)).await;
    let told = format!("{planned:?}");
    // It got as far as the provider: whether that accepts such keys is not what is tested.
    assert!(!told.contains("NotInitialised") && !told.contains("ProviderNotFound"), "{told}");
    assert_eq!(lab.engine.metrics().inits, 1);
}
