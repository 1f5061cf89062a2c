"""Terraform for tests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from .harness import ADMIN_KEY, DoubleTest

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


class TerraformTest(DoubleTest):
    """Terraform with the real provider; skipped where either is missing."""

    def setUp(self) -> None:
        super().setUp()
        found = mirror()
        if not found or not shutil.which("terraform"):
            self.skipTest("terraform or the AWS provider is not on this machine")
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
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

    def terraform(self, *arguments: str, wanted: int = 0, folder: Path | None = None) -> str:
        """Runs Terraform."""
        command = ["terraform", *arguments, "-no-color"]
        done = subprocess.run(
            command, cwd=folder or self.folder, env=self.environment, capture_output=True, text=True, timeout=900
        )
        self.assertEqual(done.returncode, wanted, f"{' '.join(command)}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}")
        return done.stdout

    def variables(self, folder: Path | None = None, **values: object) -> None:
        """Sets the module's variables."""
        ((folder or self.folder) / "terraform.tfvars.json").write_text(json.dumps(values))

    def applied(self, folder: Path | None = None) -> dict[str, Any]:
        """Applies, finds the next plan empty, and returns the outputs."""
        self.terraform("apply", "-auto-approve", "-input=false", folder=folder)
        self.terraform("plan", "-detailed-exitcode", "-input=false", wanted=NO_CHANGES, folder=folder)
        outputs = json.loads(self.terraform("output", "-json", folder=folder))
        return {name: output["value"] for name, output in outputs.items()}
