"""Clusters: create, describe, delete. Changes are in `cluster_updates`."""

from __future__ import annotations

import secrets
from typing import Any

from ..request import Call
from . import access, catalog, network
from .errors import EksError, in_use, invalid_parameter, invalid_request
from .state import Cluster, Data, Region, page

LOG_TYPES = ["api", "audit", "authenticator", "controllerManager", "scheduler"]
# Zones, by id, where EKS puts no control plane.
NO_CONTROL_PLANE = {"use1-az3", "usw1-az2", "cac1-az3"}

OPTIONAL = (
    "zonalShiftConfig",
    "computeConfig",
    "storageConfig",
    "remoteNetworkConfig",
    "controlPlaneScalingConfig",
)


def create(region: Region, params: Data, call: Call) -> Data:
    """CreateCluster."""
    name, token = params["name"], params.get("clientRequestToken")
    existing = region.clusters.get(name)
    if existing:
        if token and existing.token == token:
            return {"cluster": shown(existing)}
        raise in_use(f"Cluster already exists with name: {name}", clusterName=name)
    version = catalog.checked_version(region.options, params.get("version"))
    check_role(region, params["roleArn"], "eks.amazonaws.com")
    vpc_config = params["resourcesVpcConfig"]
    subnets = checked_subnets(region, name, vpc_config.get("subnetIds", []))
    requested = params.get("accessConfig", {})
    data = {
        "name": name,
        "arn": region.arn(f"cluster/{name}"),
        "createdAt": region.clock.time(),
        "version": version,
        "roleArn": params["roleArn"],
        "status": "CREATING",
        "platformVersion": "eks.1",
        "tags": params.get("tags", {}),
        "kubernetesNetworkConfig": _network_config(params.get("kubernetesNetworkConfig", {}), subnets),
        "logging": logging(params.get("logging", {})),
        "encryptionConfig": params.get("encryptionConfig"),
        "health": {"issues": []},
        # Who made it is told by nothing but the entry that it leaves.
        "accessConfig": {"authenticationMode": requested.get("authenticationMode", "CONFIG_MAP")},
        "upgradePolicy": {"supportType": params.get("upgradePolicy", {}).get("supportType", "EXTENDED")},
        "deletionProtection": params.get("deletionProtection", False),
        "clientRequestToken": token,
    }
    # What was not asked for is not told, and the provider would plan to remove it.
    for optional in OPTIONAL:
        data[optional] = params.get(optional)
    cluster = Cluster(data, token)
    region.clusters[name] = cluster
    data["resourcesVpcConfig"] = {
        "subnetIds": vpc_config["subnetIds"],
        "securityGroupIds": vpc_config.get("securityGroupIds", []),
        "vpcId": subnets[0].vpc_id,
        "endpointPublicAccess": vpc_config.get("endpointPublicAccess", True),
        "endpointPrivateAccess": vpc_config.get("endpointPrivateAccess", False),
        "publicAccessCidrs": vpc_config.get("publicAccessCidrs") or ["0.0.0.0/0"],
        "clusterSecurityGroupId": network.attach(region, cluster, subnets),
    }
    if requested.get("bootstrapClusterCreatorAdminPermissions", True):
        access.admit_creator(region, cluster, call.principal)
    region.after("cluster.create", lambda: _become_active(region, cluster))
    return {"cluster": shown(cluster)}


def _become_active(region: Region, cluster: Cluster) -> None:
    identity = secrets.token_hex(16).upper()
    suffix = region.dns_suffix
    cluster.data["identity"] = {"oidc": {"issuer": f"https://oidc.eks.{region.name}.{suffix}/id/{identity}"}}
    own = f"https://{identity}.gr7.{region.name}.eks.{suffix}"
    cluster.endpoint = cluster.endpoint or region.options.endpoint or own
    cluster.ca = cluster.ca or region.ca
    if cluster.status == "CREATING":
        cluster.status = "ACTIVE"


def shown(cluster: Cluster) -> Data:
    """A cluster as it is told: endpoint and CA are there once it was ACTIVE."""
    told = {}
    if "identity" in cluster.data:
        told = {"endpoint": cluster.endpoint, "certificateAuthority": {"data": cluster.ca}}
    return {**cluster.data, **told}


def describe(region: Region, params: Data) -> Data:
    """DescribeCluster."""
    return {"cluster": shown(region.cluster(params["name"]))}


def listed(region: Region, params: Data) -> Data:
    """ListClusters."""
    return page(params, sorted(region.clusters), "clusters")


def delete(region: Region, params: Data) -> Data:
    """DeleteCluster."""
    cluster = region.cluster(params["name"])
    name = cluster.name
    if cluster.data["deletionProtection"]:
        raise invalid_request(f"Cluster {name} has deletion protection enabled and cannot be deleted.")
    if cluster.nodegroups:
        raise in_use(
            "Cluster has nodegroups attached", clusterName=name, nodegroupName=",".join(sorted(cluster.nodegroups))
        )
    if cluster.fargate:
        raise in_use("Cluster has Fargate profiles attached", clusterName=name)
    if cluster.status in ("CREATING", "UPDATING"):
        raise in_use(f"Cannot delete because cluster {name} currently has an update in progress", clusterName=name)
    if cluster.status != "DELETING":
        cluster.status = "DELETING"

        def finish() -> None:
            network.detach(region, cluster)
            region.clusters.pop(name, None)

        region.after("cluster.delete", finish)
    return {"cluster": shown(cluster)}


def check_role(region: Region, arn: str, service: str) -> None:
    """Refuses a role that does not exist yet, is not for EKS, or can do nothing."""
    if f":{region.account}:" not in arn:
        raise invalid_parameter(f"Cross-account pass role is not allowed. {arn}")
    role = region.role(arn)
    if role is None:
        raise invalid_parameter(f"roleArn, {arn}, does not exist")
    if service not in role.assume_role_policy_document:
        raise invalid_parameter("Role could not be assumed because the trusted entity is not correct")
    if not role.managed_policies and not role.policies:
        raise invalid_parameter(
            "The provided role doesn't have the Amazon EKS Managed Policies associated with it. Please ensure the "
            f"following policy is attached: arn:{region.partition}:iam::aws:policy/AmazonEKSClusterPolicy"
        )


def checked_subnets(region: Region, name: str, ids: list[str]) -> list[Any]:
    """Subnets of a control plane."""
    subnets = [network.subnet(region, id) for id in ids]
    if len({subnet.availability_zone for subnet in subnets}) < 2:
        raise invalid_parameter("Subnets specified must be in at least two different AZs", clusterName=name)
    if len({subnet.vpc_id for subnet in subnets}) > 1:
        raise invalid_parameter("Provided subnets belong to different VPCs", clusterName=name)
    zones = region.ec2.describe_availability_zones()
    usable = sorted(zone.name for zone in zones if zone.zone_id not in NO_CONTROL_PLANE)
    for subnet in subnets:
        if subnet.availability_zone not in usable:
            raise EksError(
                "UnsupportedAvailabilityZoneException",
                400,
                f"Cannot create cluster '{name}' because {subnet.availability_zone}, the targeted availability zone, "
                "does not currently have sufficient capacity to support the cluster. Retry and choose from these "
                f"availability zones: {', '.join(usable)}",
                clusterName=name,
            )
    return subnets


def _network_config(requested: Data, subnets: list[Any]) -> Data:
    """The addresses of services: AWS takes the range that the VPC does not have."""
    in_use_already = any(subnet.cidr_block.startswith("10.100.") for subnet in subnets)
    config = {
        "ipFamily": requested.get("ipFamily", "ipv4"),
        "elasticLoadBalancing": requested.get("elasticLoadBalancing", {"enabled": False}),
    }
    if config["ipFamily"] == "ipv6":
        return {**config, "serviceIpv6Cidr": "fd00:10:100::/108"}
    default = "172.20.0.0/16" if in_use_already else "10.100.0.0/16"
    return {**config, "serviceIpv4Cidr": requested.get("serviceIpv4Cidr", default)}


def logging(requested: Data, before: Data | None = None) -> Data:
    """Which logs are on and which are off: all five are always told."""
    on = {kind for part in (before or {}).get("clusterLogging", []) if part["enabled"] for kind in part["types"]}
    for part in requested.get("clusterLogging", []):
        kinds = set(part.get("types", []))
        on = on | kinds if part.get("enabled") else on - kinds
    parts = [
        {"types": [kind for kind in LOG_TYPES if kind in on], "enabled": True},
        {"types": [kind for kind in LOG_TYPES if kind not in on], "enabled": False},
    ]
    return {"clusterLogging": [part for part in parts if part["types"]]}
