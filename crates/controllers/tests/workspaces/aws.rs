//! The real AWS provider against moto: a network is created, changed and destroyed.

use std::sync::Arc;

use capt_e2e::{Moto, aws_mirror};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::fixture::{Fixture, Harness, truth};

const MODULE: &str = r#"
terraform {
  required_providers {
    aws = { source = "hashicorp/aws" }
  }
}
variable "name" { type = string }
variable "zones" {
  type    = list(string)
  default = ["us-east-1a", "us-east-1b"]
}
resource "aws_vpc" "this" {
  cidr_block = "10.0.0.0/16"
  tags       = { Name = var.name }
}
resource "aws_subnet" "this" {
  for_each          = { for index, zone in var.zones : zone => cidrsubnet("10.0.0.0/16", 8, index) }
  vpc_id            = aws_vpc.this.id
  availability_zone = each.key
  cidr_block        = each.value
}
output "vpc_id" { value = aws_vpc.this.id }
output "subnet_ids" { value = [for subnet in aws_subnet.this : subnet.id] }
"#;

fn configuration(moto: &Moto) -> String {
    format!(
        r#"
provider "aws" {{
  region                      = "us-east-1"
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_requesting_account_id  = true
  endpoints {{
    ec2 = "{url}"
    sts = "{url}"
    iam = "{url}"
  }}
}}
"#,
        url = moto.url()
    )
}

/// What moto has, asked without Terraform.
async fn described(moto: &Moto, action: &str, mark: &str) -> usize {
    let authority = moto.url().trim_start_matches("http://").to_owned();
    let body = format!("Action={action}&Version=2016-11-15");
    let request = format!(
        "POST / HTTP/1.1\r\nHost: {authority}\r\nContent-Type: application/x-www-form-urlencoded\r\nAuthorization: AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/ec2/aws4_request, SignedHeaders=host, Signature=0\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let answer = tokio::task::spawn_blocking(move || {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(&authority).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    });
    let answer = answer.await.unwrap();
    assert!(answer.contains("200 OK"), "{answer}");
    answer.matches(mark).count()
}

/// Prints what moto was asked, where the test fails.
struct OnFailure<'a>(&'a Moto);

impl Drop for OnFailure<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("moto:\n{}", self.0.log_tail(400));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_on_aws() {
    if !crate::scenarios::can_run("embedded") {
        return;
    }
    let Some(mirror) = aws_mirror() else {
        return capt_e2e::skip("the AWS provider is in no plugin folder of this machine");
    };
    let Some(program) = Moto::find() else {
        return capt_e2e::skip("moto is not installed (make tools)");
    };
    let moto = Moto::start(&program).await.unwrap();
    let _told = OnFailure(&moto);
    let fixture = Fixture::new(Arc::new(Harness::embedded().await), "aws").await;
    let secret =
        json!({"metadata": {"name": "aws"}, "stringData": {"id": "test-key", "secret": "test-secret"}});
    fixture.secrets().create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    let key = |key: &str, env: &str| json!({"secretRef": {"name": "aws", "key": key}, "env": env});
    let config = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceProviderConfig",
        "metadata": {"name": "aws"},
        "spec": {
            "credentials": [key("id", "AWS_ACCESS_KEY_ID"), key("secret", "AWS_SECRET_ACCESS_KEY")],
            "configuration": configuration(&moto), "plugins": {"mirror": mirror},
            // The mirror is one of the registry that Terraform asks.
            "binary": {"name": "terraform"},
        },
    });
    let configs: Api<capt_api::workspace::WorkspaceProviderConfig> =
        Api::namespaced(fixture.client.clone(), &fixture.namespace);
    configs.patch("aws", &PatchParams::apply("user"), &Patch::Apply(&config)).await.unwrap();
    fixture.put_template("network", json!({"module": MODULE, "providerConfigRef": {"name": "aws"}})).await;

    // Two at once, the first of their shape: they share one init.
    for name in ["blue", "green"] {
        fixture.apply(name, "network", json!({"variables": {"name": name}})).await;
    }
    for name in ["blue", "green"] {
        let ready = fixture.ready(name).await;
        let outputs = ready.status.unwrap().outputs;
        assert!(outputs["vpc_id"].as_str().unwrap().starts_with("vpc-"), "{outputs:?}");
        assert_eq!(outputs["subnet_ids"].as_array().unwrap().len(), 2);
    }
    assert_eq!(fixture.harness.engine.metrics().inits, 1);
    assert_eq!(described(&moto, "DescribeVpcs", "<isDefault>false").await, 2);
    assert_eq!(described(&moto, "DescribeSubnets", "<cidrBlock>10.0.").await, 4);

    let zones = ["us-east-1a", "us-east-1b", "us-east-1c"];
    fixture.apply("blue", "network", json!({"variables": {"name": "blue", "zones": zones}})).await;
    let changed = fixture.when("blue", "changed", |object| {
        let outputs = &object.status.as_ref().unwrap().outputs;
        truth(object, "Ready") == "True" && outputs["subnet_ids"].as_array().is_some_and(|ids| ids.len() == 3)
    });
    changed.await;
    assert_eq!(described(&moto, "DescribeSubnets", "<cidrBlock>10.0.").await, 5);

    for name in ["blue", "green"] {
        fixture.delete(name).await;
    }
    for name in ["blue", "green"] {
        fixture.gone(name).await;
    }
    assert_eq!(described(&moto, "DescribeVpcs", "<isDefault>false").await, 0);
    assert_eq!(described(&moto, "DescribeSubnets", "<cidrBlock>10.0.").await, 0);
    assert_eq!(fixture.harness.engine.metrics().inits, 1, "and never again");
}
