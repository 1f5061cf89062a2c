"""Fargate profiles."""

from __future__ import annotations

from ..request import Call
from . import network
from .errors import in_use, invalid_parameter, invalid_request, not_found
from .state import Cluster, Data, Item, Region, new_id, page


def _find(cluster: Cluster, name: str) -> Item:
    if name not in cluster.fargate:
        raise not_found(f"No Fargate Profile found with name: {name}.", clusterName=cluster.name)
    return cluster.fargate[name]


def create(region: Region, params: Data, call: Call) -> Data:
    """CreateFargateProfile: one at a time in a cluster."""
    cluster, name = region.active_cluster(params["clusterName"]), params["fargateProfileName"]
    token = params.get("clientRequestToken")
    existing = cluster.fargate.get(name)
    if existing:
        if token and existing.token == token:
            return {"fargateProfile": existing.data}
        raise in_use("A Fargate Profile already exists with this name in this cluster.", clusterName=cluster.name)
    busy = [other for other, item in cluster.fargate.items() if item.status in ("CREATING", "DELETING")]
    if busy:
        raise in_use(
            f"Cannot create Fargate Profile {name} because cluster {cluster.name} currently has Fargate profile "
            f"{busy[0]} in status {cluster.fargate[busy[0]].status}",
            clusterName=cluster.name,
        )
    if not params.get("selectors"):
        raise invalid_parameter("Fargate Profile requires at least one selector.")
    role = region.role(params["podExecutionRoleArn"])
    if role is None or "eks-fargate-pods.amazonaws.com" not in role.assume_role_policy_document:
        raise invalid_parameter(
            "Misconfigured PodExecutionRole Trust Policy; Please add the eks-fargate-pods.amazonaws.com Service "
            "Principal"
        )
    for id in params.get("subnets", []):
        if network.subnet(region, id).map_public_ip_on_launch in (True, "true"):
            raise invalid_parameter(f"Subnet {id} provided in Fargate Profile is not a private subnet")
    data = {
        "fargateProfileName": name,
        "fargateProfileArn": region.arn(f"fargateprofile/{cluster.name}/{name}/{new_id()}"),
        "clusterName": cluster.name,
        "createdAt": region.clock.time(),
        "podExecutionRoleArn": params["podExecutionRoleArn"],
        "subnets": params.get("subnets") or cluster.data["resourcesVpcConfig"]["subnetIds"],
        "selectors": params["selectors"],
        "status": "CREATING",
        "health": {"issues": []},
        "tags": params.get("tags", {}),
    }
    profile = Item(data, token)
    cluster.fargate[name] = profile
    region.after("fargate.create", lambda: data.update(status="ACTIVE"))
    return {"fargateProfile": data}


def describe(region: Region, params: Data) -> Data:
    """DescribeFargateProfile."""
    return {"fargateProfile": _find(region.cluster(params["clusterName"]), params["fargateProfileName"]).data}


def listed(region: Region, params: Data) -> Data:
    """ListFargateProfiles."""
    return page(params, sorted(region.cluster(params["clusterName"]).fargate), "fargateProfileNames")


def delete(region: Region, params: Data) -> Data:
    """DeleteFargateProfile."""
    cluster, name = region.cluster(params["clusterName"]), params["fargateProfileName"]
    profile = _find(cluster, name)
    if profile.status == "CREATING":
        raise invalid_request(f"Fargate Profile {name} is in status CREATING", clusterName=cluster.name)
    if profile.status != "DELETING":
        profile.status = "DELETING"
        region.after("fargate.delete", lambda: cluster.fargate.pop(name, None) and None)
    return {"fargateProfile": profile.data}
