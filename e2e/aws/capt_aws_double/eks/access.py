"""Access entries: which principal is who in a cluster, and what it may do."""

from __future__ import annotations

import re

from ..request import Call
from . import catalog
from .errors import in_use, invalid_parameter, invalid_request, not_found
from .state import AccessEntry, Cluster, Data, Region, new_id, page

PRINCIPAL = re.compile(r"arn:([\w-]+):(iam|sts)::(\d{12}):(root|user|role|assumed-role)(?:/(.+))?")
NODE_TYPES = ("EC2_LINUX", "EC2_WINDOWS", "EC2", "HYBRID_LINUX", "HYPERPOD_LINUX", "FARGATE_LINUX")


def canonical(arn: str) -> str:
    """The IAM identity behind a principal: a session of a role is that role, without its path."""
    found = PRINCIPAL.fullmatch(arn)
    if not found or found[2] != "sts" or found[4] != "assumed-role":
        return arn
    return f"arn:{found[1]}:iam::{found[3]}:role/{found[5].split('/')[0]}"


def _cluster(region: Region, params: Data) -> Cluster:
    cluster = region.active_cluster(params["clusterName"])
    if cluster.mode == "CONFIG_MAP":
        raise invalid_request(
            "The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] to perform this "
            "operation."
        )
    return cluster


def _find(cluster: Cluster, arn: str) -> AccessEntry:
    if arn not in cluster.access:
        raise not_found(
            "The specified principalArn could not be found. You can view your available access entries with "
            "'list-access-entries'."
        )
    return cluster.access[arn]


def _check_principal(region: Region, arn: str) -> None:
    """Refuses what is no IAM identity, and what does not exist in this account."""
    found = PRINCIPAL.fullmatch(arn)
    problem = "The specified principalArn is invalid: invalid principal."
    if not found or found[2] != "iam" or found[4] == "assumed-role":
        raise invalid_parameter(problem)
    name = (found[5] or "").rpartition("/")[2]
    if found[3] != region.account or found[4] == "root":
        return
    exists = name in region.iam.users if found[4] == "user" else region.role(arn) is not None
    if not exists:
        raise invalid_parameter(problem)


def _username(arn: str, kind: str) -> str:
    if kind in NODE_TYPES:
        return "system:node:{{SessionName}}" if kind == "FARGATE_LINUX" else "system:node:{{EC2PrivateDNSName}}"
    found = PRINCIPAL.fullmatch(arn)
    if found and found[4] == "role":
        name = found[5].rpartition("/")[2]
        return f"arn:{found[1]}:sts::{found[3]}:assumed-role/{name}/{{{{SessionName}}}}"
    return arn


def _checked_groups(kind: str, groups: list[str], username: str | None) -> list[str]:
    if kind in NODE_TYPES:
        if groups or username:
            raise invalid_parameter(f"Username and kubernetesGroups cannot be set for type {kind}.")
        return ["system:nodes"]
    for group in groups:
        if group.startswith(("system:", "eks:", "aws:", "amazon:", "iam:")):
            raise invalid_parameter(
                f"The kubernetes group name {group} is invalid, it cannot start with any of the following prefixes: "
                "[system:, eks:, aws:, amazon:, iam:]"
            )
    return groups


def _add(region: Region, cluster: Cluster, arn: str, kind: str, given: Data, token: str | None = None) -> AccessEntry:
    path = arn.split(":", 5)
    data = {
        "clusterName": cluster.name,
        "principalArn": arn,
        "kubernetesGroups": _checked_groups(kind, given.get("kubernetesGroups", []), given.get("username")),
        "accessEntryArn": region.arn(f"access-entry/{cluster.name}/{path[5].split('/')[0]}/{path[4]}/"
                                     f"{path[5].rpartition('/')[2]}/{new_id()}"),
        "createdAt": region.clock.time(),
        "modifiedAt": region.clock.time(),
        "tags": given.get("tags", {}),
        "username": given.get("username") or _username(arn, kind),
        "type": kind,
    }
    cluster.access[arn] = AccessEntry(data, token)
    return cluster.access[arn]


def admit_creator(region: Region, cluster: Cluster, principal: str) -> None:
    """Makes whoever made the cluster its administrator."""
    entry = _add(region, cluster, canonical(principal), "STANDARD", {})
    _associate(region, entry, catalog.policy_arn(region, "AmazonEKSClusterAdminPolicy"), {"type": "cluster"})


def admit_nodes(region: Region, cluster: Cluster, role: str, ami_type: str) -> None:
    """Makes the entry that a managed node group's nodes join by."""
    if role not in cluster.access:
        _add(region, cluster, role, "EC2_WINDOWS" if ami_type.startswith("WINDOWS") else "EC2_LINUX", {})


def create(region: Region, params: Data, call: Call) -> Data:
    """CreateAccessEntry."""
    cluster, arn = _cluster(region, params), params["principalArn"]
    token = params.get("clientRequestToken")
    existing = cluster.access.get(arn)
    if existing:
        if token and existing.token == token:
            return {"accessEntry": existing.data}
        raise in_use("The specified access entry resource is already in use on this cluster.")
    _check_principal(region, arn)
    return {"accessEntry": _add(region, cluster, arn, params.get("type", "STANDARD"), params, token).data}


def describe(region: Region, params: Data) -> Data:
    """DescribeAccessEntry."""
    return {"accessEntry": _find(_cluster(region, params), params["principalArn"]).data}


def listed(region: Region, params: Data) -> Data:
    """ListAccessEntries."""
    cluster, policy = _cluster(region, params), params.get("associatedPolicyArn")
    arns = [arn for arn, entry in cluster.access.items() if policy is None or policy in entry.policies]
    return page(params, sorted(arns), "accessEntries")


def update(region: Region, params: Data) -> Data:
    """UpdateAccessEntry."""
    entry = _find(_cluster(region, params), params["principalArn"])
    kind = entry.data["type"]
    if "kubernetesGroups" in params:
        entry.data["kubernetesGroups"] = _checked_groups(kind, params["kubernetesGroups"], params.get("username"))
    if params.get("username"):
        entry.data["username"] = params["username"]
    entry.data["modifiedAt"] = region.clock.time()
    return {"accessEntry": entry.data}


def delete(region: Region, params: Data) -> Data:
    """DeleteAccessEntry."""
    cluster = _cluster(region, params)
    _find(cluster, params["principalArn"])
    del cluster.access[params["principalArn"]]
    return {}


def _associate(region: Region, entry: AccessEntry, policy: str, scope: Data) -> Data:
    now = region.clock.time()
    made = entry.policies.get(policy, {}).get("associatedAt", now)
    scope = {"type": scope.get("type", "cluster"), "namespaces": scope.get("namespaces", [])}
    entry.policies[policy] = {"policyArn": policy, "accessScope": scope, "associatedAt": made, "modifiedAt": now}
    return entry.policies[policy]


def associate_policy(region: Region, params: Data) -> Data:
    """AssociateAccessPolicy."""
    entry = _find(_cluster(region, params), params["principalArn"])
    policy, scope = params["policyArn"], params["accessScope"]
    if policy not in [catalog.policy_arn(region, name) for name in catalog.CLUSTER_POLICIES]:
        raise invalid_parameter("The specified policyArn could not be found.")
    if entry.data["type"] != "STANDARD":
        raise invalid_request("Access policies can only be associated with access entries of type STANDARD.")
    if (scope.get("type") == "namespace") != bool(scope.get("namespaces")):
        raise invalid_parameter("Namespaces are required for an access scope of type namespace, and only for that.")
    names = {"clusterName": params["clusterName"], "principalArn": params["principalArn"]}
    return {**names, "associatedAccessPolicy": _associate(region, entry, policy, scope)}


def list_policies(region: Region, params: Data) -> Data:
    """ListAssociatedAccessPolicies."""
    entry = _find(_cluster(region, params), params["principalArn"])
    names = {"clusterName": params["clusterName"], "principalArn": params["principalArn"]}
    return {**names, **page(params, list(entry.policies.values()), "associatedAccessPolicies")}


def disassociate_policy(region: Region, params: Data) -> Data:
    """DisassociateAccessPolicy."""
    entry = _find(_cluster(region, params), params["principalArn"])
    if entry.policies.pop(params["policyArn"], None) is None:
        raise not_found("The specified policyArn is not associated with the access entry.")
    return {}
