"""What EKS offers: versions of Kubernetes and of add-ons, images, access policies."""

from __future__ import annotations

import datetime
import hashlib
from dataclasses import dataclass

from ..options import Options
from .errors import invalid_parameter
from .state import Data, Region, page

CLUSTER_POLICIES = (
    "AmazonEKSClusterAdminPolicy",
    "AmazonEKSAdminPolicy",
    "AmazonEKSAdminViewPolicy",
    "AmazonEKSEditPolicy",
    "AmazonEKSViewPolicy",
    "AmazonEKSAutoNodePolicy",
)


@dataclass(frozen=True)
class AddonKind:
    """An add-on of AWS."""

    type: str
    # The newest first; the first is the default. `{minor}` is that of the cluster.
    versions: tuple[str, ...]
    namespace: str = "kube-system"
    # Its pods are no daemon set: without a node they stay pending, and the add-on is not healthy.
    needs_nodes: bool = False


ADDONS = {
    "vpc-cni": AddonKind("networking", ("v1.20.4-eksbuild.2", "v1.20.3-eksbuild.1", "v1.19.6-eksbuild.7")),
    "kube-proxy": AddonKind("networking", ("v1.{minor}.2-eksbuild.4", "v1.{minor}.0-eksbuild.2")),
    "coredns": AddonKind("networking", ("v1.12.4-eksbuild.1", "v1.12.3-eksbuild.1"), needs_nodes=True),
    "aws-ebs-csi-driver": AddonKind("storage", ("v1.51.0-eksbuild.1", "v1.50.1-eksbuild.1"), needs_nodes=True),
    "aws-efs-csi-driver": AddonKind("storage", ("v2.1.13-eksbuild.1", "v2.1.12-eksbuild.1"), needs_nodes=True),
    "snapshot-controller": AddonKind("storage", ("v8.3.0-eksbuild.1", "v8.2.0-eksbuild.1"), needs_nodes=True),
    "metrics-server": AddonKind("observability", ("v0.8.0-eksbuild.2", "v0.7.2-eksbuild.4"), needs_nodes=True),
    "eks-pod-identity-agent": AddonKind("security", ("v1.3.9-eksbuild.3", "v1.3.8-eksbuild.2")),
}


def minor(version: str) -> int:
    """The second number of a version of Kubernetes."""
    return int(version.split(".")[1])


def checked_version(options: Options, version: str | None) -> str:
    """A version that a cluster can have; the newest but one where none is asked for, as AWS does."""
    version = version or options.versions[-2:][0]
    if version not in options.versions:
        raise invalid_parameter("unsupported Kubernetes version")
    return version


def addon_versions(name: str, version: str) -> list[str]:
    """Versions of an add-on for a version of Kubernetes, the default first."""
    return [text.format(minor=minor(version)) for text in ADDONS[name].versions]


def image_name(version: str, arm: bool = False) -> str:
    """Name of the image of nodes."""
    return f"amazon-eks-node-al2023-{'arm64' if arm else 'x86_64'}-standard-{version}-v20260101"


def image_id(version: str, arm: bool = False) -> str:
    """Its id, the same in each region of this double."""
    return "ami-" + hashlib.sha256(image_name(version, arm).encode()).hexdigest()[:17]


def release_version(version: str) -> str:
    """The release of the image of nodes."""
    return f"{version}.2-20260101"


def describe_addon_versions(region: Region, params: Data) -> Data:
    """DescribeAddonVersions."""
    asked = params.get("kubernetesVersion")
    kubernetes = [asked] if asked else region.options.versions
    names = [name for name in ADDONS if params.get("addonName") in (None, name)]
    if not names:
        raise invalid_parameter(f"Addon {params['addonName']} specified is not supported")
    found = []
    for name in names:
        fitting: dict[str, list[Data]] = {}
        for version in (version for version in kubernetes if version in region.options.versions):
            for index, addon_version in enumerate(addon_versions(name, version)):
                fits = {"clusterVersion": version, "platformVersions": ["*"], "defaultVersion": index == 0}
                fitting.setdefault(addon_version, []).append(fits)
        listed = [
            {
                "addonVersion": version,
                "architecture": ["amd64", "arm64"],
                "compatibilities": fits,
                "requiresConfiguration": False,
                "requiresIamPermissions": name in ("vpc-cni", "aws-ebs-csi-driver", "aws-efs-csi-driver"),
            }
            for version, fits in fitting.items()
        ]
        kind = {"addonName": name, "type": ADDONS[name].type, "publisher": "eks", "owner": "aws"}
        found.append({**kind, "addonVersions": listed, "defaultNamespace": ADDONS[name].namespace})
    return page(params, found, "addons")


def describe_cluster_versions(region: Region, params: Data) -> Data:
    """DescribeClusterVersions. The dates are made up: each version came four months after the one before."""
    found = []
    for version in reversed(region.options.versions):
        month = (minor(version) - 30) * 4
        released = datetime.datetime(2024 + month // 12, month % 12 + 1, 1, tzinfo=datetime.timezone.utc)
        found.append(
            {
                "clusterVersion": version,
                "clusterType": "eks",
                "defaultPlatformVersion": "eks.1",
                "defaultVersion": version == checked_version(region.options, None),
                "releaseDate": released,
                "endOfStandardSupportDate": released.replace(year=released.year + 1),
                "endOfExtendedSupportDate": released.replace(year=released.year + 2),
                "status": "STANDARD_SUPPORT",
                "versionStatus": "STANDARD_SUPPORT",
                "kubernetesPatchVersion": f"{version}.2",
            }
        )
    wanted = params.get("clusterVersions")
    if params.get("defaultOnly"):
        found = [entry for entry in found if entry["defaultVersion"]]
    if wanted:
        found = [entry for entry in found if entry["clusterVersion"] in wanted]
    return page(params, found, "clusterVersions")


def policy_arn(region: Region, name: str) -> str:
    """ARN of an access policy; it belongs to no account and no region."""
    return f"arn:{region.partition}:eks::aws:cluster-access-policy/{name}"


def list_access_policies(region: Region, params: Data) -> Data:
    """ListAccessPolicies."""
    policies = [{"name": name, "arn": policy_arn(region, name)} for name in CLUSTER_POLICIES]
    return page(params, policies, "accessPolicies")
