"""The modules of examples/aws-eks, as they are, by the real provider."""

from __future__ import annotations

import os
import unittest
from pathlib import Path
from typing import Any

import yaml

from .terraform import TerraformTest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples/aws-eks"
PROVIDER = """
variable "url" {
  type = string
}

provider "aws" {
  region                      = "ap-northeast-1"
  skip_metadata_api_check     = true
  skip_credentials_validation = true
  skip_requesting_account_id  = true

  endpoints {
    ec2 = var.url
    eks = var.url
    iam = var.url
    sts = var.url
  }
}
"""


# Some twenty runs of Terraform: minutes.
@unittest.skipUnless(os.environ.get("CAPT_AWS_EXAMPLES"), "CAPT_AWS_EXAMPLES is not set")
class Examples(TerraformTest):
    def workspace(self, name: str, **variables: object) -> dict[str, Any]:
        """Applies the module of one example, and returns its outputs."""
        document = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
        folder = self.folder / name
        if not folder.exists():
            folder.mkdir()
            module = document["spec"]["template"]["spec"]["forProvider"]["module"]
            (folder / "main.tf").write_text(module)
            (folder / "provider.tf").write_text(PROVIDER)
            self.terraform("init", "-input=false", folder=folder)
        self.variables(folder=folder, **variables)
        return self.applied(folder=folder)

    def test_a_cluster_with_its_network(self) -> None:
        region = {"region": "ap-northeast-1"}
        network = self.workspace("vpc", cluster_name="demo", vpc_name="demo", zone_count=2, **region)
        subnets = {key: network[key] for key in ("vpc_id", "private_subnets", "public_subnets")}
        addons = [{"name": "vpc-cni"}, {"name": "kube-proxy"}]
        plane = {"cluster_name": "demo", "kubernetes_version": "v1.34.0", "addons": addons, **subnets, **region}
        self.workspace("control-plane", **plane)
        group = self.workspace("node-group", cluster_name="demo", node_group_name="workers", desired_size=2)
        self.assertEqual(group["node_group_name"], "workers")
        machine = self.workspace("machine", cluster_name="demo", node_group="workers", machine_name="m1")
        self.assertRegex(machine["provider_id"], r"^aws:///ap-northeast-1./i-[0-9a-f]+$")
        upgraded = self.workspace("control-plane", **{**plane, "kubernetes_version": "v1.35.0"})
        self.assertEqual(upgraded["cluster_version"], "1.35")
        for name in ("machine", "node-group", "control-plane", "vpc"):
            self.terraform("destroy", "-auto-approve", "-input=false", folder=self.folder / name)
        self.assertEqual(self.double.admin("GET", "resources"), [])
