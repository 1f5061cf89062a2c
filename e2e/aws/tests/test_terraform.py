"""The real AWS provider over the life of a cluster. Skipped where Terraform or the provider is missing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from .terraform import TerraformTest

MODULE = Path(__file__).parent / "module" / "main.tf"


class Life(TerraformTest):
    def setUp(self) -> None:
        super().setUp()
        shutil.copy(MODULE, self.folder)

    def token(self) -> str:
        """The token that the provider made. It is another one each time, so it cannot be an output."""
        state = json.loads(self.terraform("show", "-json"))["values"]["root_module"]["resources"]
        return next(one["values"]["token"] for one in state if one["type"] == "aws_eks_cluster_auth")

    def test_a_cluster(self) -> None:
        self.terraform("init", "-input=false")
        self.variables(kubernetes_version="1.33", environment="dev", desired_size=1, replicas=2)
        outputs = self.applied()
        self.assertEqual(outputs["version"], "1.33")
        review = {"spec": {"token": self.token()}}
        status = self.double.admin("POST", "token-review/demo", review)["status"]
        self.assertEqual(status.get("user", {}).get("groups"), ["system:masters"], status)
        self.assertEqual(len(self.instances(eks_cluster_name="demo")), 1)

        self.variables(kubernetes_version="1.34", environment="prod", desired_size=3, replicas=3)
        self.assertEqual(self.applied()["version"], "1.34")
        cluster = self.eks.describe_cluster(name="demo")["cluster"]
        self.assertEqual((cluster["version"], cluster["tags"]), ("1.34", {"environment": "prod"}))
        group = self.eks.describe_nodegroup(clusterName="demo", nodegroupName="workers")["nodegroup"]
        self.assertEqual((group["version"], group["scalingConfig"]["desiredSize"]), ("1.34", 3))
        self.assertEqual(len(self.instances(eks_cluster_name="demo")), 3)
        addon = self.eks.describe_addon(clusterName="demo", addonName="coredns")["addon"]
        self.assertEqual(json.loads(addon["configurationValues"]), {"replicaCount": 3})

        self.terraform("destroy", "-auto-approve", "-input=false")
        self.assertEqual(self.double.admin("GET", "resources"), [])
