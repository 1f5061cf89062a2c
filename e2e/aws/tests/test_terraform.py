"""The real AWS provider over the life of a cluster. Skipped where Terraform or the provider is missing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from .harness import ADMIN_KEY, DoubleTest

MODULE = Path(__file__).parent / "module" / "main.tf"
# Exit code of `plan -detailed-exitcode` where nothing is to be done.
NO_CHANGES = 0


def mirror() -> Path | None:
    """A folder of plugins that has the AWS provider, in the places where the Rust tests look."""
    places = [
        Path.home() / ".terraform.d/plugins",
        Path("/usr/local/share/terraform/plugins"),
        Path("/usr/share/terraform/plugins"),
        *([Path(os.environ["CAPT_PLUGIN_MIRROR"])] if "CAPT_PLUGIN_MIRROR" in os.environ else []),
        *sorted(Path("/opt").glob("*")),
    ]
    return next((place for place in places if list(place.glob("*/hashicorp/aws"))), None)


class Life(DoubleTest):
    def setUp(self) -> None:
        super().setUp()
        found = mirror()
        if not found or not shutil.which("terraform"):
            self.skipTest("terraform or the AWS provider is not on this machine")
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        shutil.copy(MODULE, self.folder)
        config = self.folder / "terraformrc"
        config.write_text(f'provider_installation {{\n  filesystem_mirror {{\n    path = "{found}"\n  }}\n}}\n')
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "TF_"))},
            "TF_CLI_CONFIG_FILE": str(config),
            "TF_IN_AUTOMATION": "1",
            "CHECKPOINT_DISABLE": "1",
            "AWS_ACCESS_KEY_ID": ADMIN_KEY[0],
            "AWS_SECRET_ACCESS_KEY": ADMIN_KEY[1],
            "TF_VAR_url": self.double.url,
        }

    def terraform(self, *arguments: str, wanted: int = 0) -> str:
        """Runs Terraform."""
        command = ["terraform", *arguments, "-no-color"]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=900
        )
        self.assertEqual(done.returncode, wanted, f"{' '.join(command)}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}")
        return done.stdout

    def variables(self, **values: object) -> None:
        """Sets the module's variables."""
        (self.folder / "terraform.tfvars.json").write_text(json.dumps(values))

    def applied(self) -> dict[str, object]:
        """Applies, finds the next plan empty, and returns the outputs."""
        self.terraform("apply", "-auto-approve", "-input=false")
        self.terraform("plan", "-detailed-exitcode", "-input=false", wanted=NO_CHANGES)
        return {name: output["value"] for name, output in json.loads(self.terraform("output", "-json")).items()}

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


if __name__ == "__main__":
    unittest.main()
