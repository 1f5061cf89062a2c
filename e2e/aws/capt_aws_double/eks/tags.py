"""Tags of everything in EKS."""

from __future__ import annotations

from collections.abc import Iterator

from .errors import EksError
from .state import Cluster, Data, Region


def items(cluster: Cluster) -> Iterator[tuple[str, str, str, Data]]:
    """Kind, name, ARN and data of a cluster and all that belongs to it."""
    yield "cluster", cluster.name, cluster.data["arn"], cluster.data
    kinds = (
        ("nodegroup", cluster.nodegroups, "nodegroupArn"),
        ("fargateprofile", cluster.fargate, "fargateProfileArn"),
        ("addon", cluster.addons, "addonArn"),
        ("access-entry", cluster.access, "accessEntryArn"),
        ("podidentityassociation", cluster.associations, "associationArn"),
        ("identityproviderconfig", cluster.identity_providers, "identityProviderConfigArn"),
    )
    for kind, found, key in kinds:
        for name, item in found.items():
            yield kind, name, item.data[key], item.data


def _find(region: Region, arn: str) -> Data:
    for cluster in region.clusters.values():
        for _, _, own, data in items(cluster):
            if own == arn:
                return data
    raise EksError("NotFoundException", 404, f"Resource {arn} was not found")


def tag(region: Region, params: Data) -> Data:
    """TagResource."""
    data = _find(region, params["resourceArn"])
    data["tags"] = {**data["tags"], **params["tags"]}
    return {}


def untag(region: Region, params: Data) -> Data:
    """UntagResource."""
    data = _find(region, params["resourceArn"])
    data["tags"] = {key: value for key, value in data["tags"].items() if key not in params["tagKeys"]}
    return {}


def listed(region: Region, params: Data) -> Data:
    """ListTagsForResource."""
    return {"tags": _find(region, params["resourceArn"])["tags"]}
