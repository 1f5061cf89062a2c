"""What a cluster puts into its VPC: a security group and the network interfaces of the control plane."""

from __future__ import annotations

import secrets
from typing import Any

from .errors import invalid_parameter
from .state import Cluster, Region


def subnet(region: Region, id: str) -> Any:
    """A subnet that exists."""
    try:
        return region.ec2.get_subnet(id)
    except Exception as error:
        raise invalid_parameter(f"The subnet ID '{id}' does not exist") from error


def attach(region: Region, cluster: Cluster, subnets: list[Any]) -> str:
    """Makes both, and returns the group. They keep the VPC from being deleted, as on AWS."""
    name = cluster.name
    tags = {f"kubernetes.io/cluster/{name}": "owned", "aws:eks:cluster-name": name, "Name": f"eks-cluster-sg-{name}"}
    group = region.ec2.create_security_group(
        f"eks-cluster-sg-{name}-{secrets.randbelow(10**9)}",
        "EKS created security group applied to ENI that is attached to EKS Control Plane master nodes",
        vpc_id=subnets[0].vpc_id,
        tags=tags,
    )
    for place in subnets[:2]:
        interface = region.ec2.create_network_interface(
            place, None, group_ids=[group.id], description=f"Amazon EKS {name}"
        )
        cluster.interfaces.append(interface.id)
    return group.id


def detach(region: Region, cluster: Cluster) -> None:
    """Removes both; they may be gone with a VPC that was reset."""
    for interface in cluster.interfaces:
        region.ec2.enis.pop(interface, None)
    group = cluster.data["resourcesVpcConfig"]["clusterSecurityGroupId"]
    for groups in region.ec2.groups.values():
        groups.pop(group, None)
