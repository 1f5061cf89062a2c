"""OpenID Connect providers of a cluster's users."""

from __future__ import annotations

from ..request import Call
from . import updates
from .errors import in_use, invalid_request, not_found
from .state import Cluster, Data, Item, Region, new_id, page


def _find(cluster: Cluster, name: str) -> Item:
    if name not in cluster.identity_providers:
        raise not_found(f"Identity provider config is not associated with cluster {cluster.name}")
    return cluster.identity_providers[name]


def associate(region: Region, params: Data, call: Call) -> Data:
    """AssociateIdentityProviderConfig: a cluster has one at most."""
    cluster = region.active_cluster(params["clusterName"])
    if cluster.identity_providers:
        raise invalid_request("Identity provider config is already associated with the cluster")
    given = params["oidc"]
    name = given["identityProviderConfigName"]
    data = {
        **given,
        "identityProviderConfigArn": region.arn(f"identityproviderconfig/{cluster.name}/oidc/{name}/{new_id()}"),
        "clusterName": cluster.name,
        "tags": params.get("tags", {}),
        "status": "CREATING",
    }
    updates.refuse_second(cluster, "AssociateIdentityProviderConfig")
    cluster.identity_providers[name] = Item(data)
    said = {"IdentityProviderConfig": given}
    apply = lambda: data.update(status="ACTIVE")
    kind = "AssociateIdentityProviderConfig"
    return {**updates.start(region, cluster, cluster, kind, said, "identity.create", apply), "tags": data["tags"]}


def describe(region: Region, params: Data) -> Data:
    """DescribeIdentityProviderConfig."""
    cluster = region.cluster(params["clusterName"])
    return {"identityProviderConfig": {"oidc": _find(cluster, params["identityProviderConfig"]["name"]).data}}


def listed(region: Region, params: Data) -> Data:
    """ListIdentityProviderConfigs."""
    names = sorted(region.cluster(params["clusterName"]).identity_providers)
    return page(params, [{"type": "oidc", "name": name} for name in names], "identityProviderConfigs")


def disassociate(region: Region, params: Data) -> Data:
    """DisassociateIdentityProviderConfig."""
    cluster = region.active_cluster(params["clusterName"])
    name = params["identityProviderConfig"]["name"]
    item = _find(cluster, name)
    if item.status != "ACTIVE":
        raise in_use(f"Identity provider config {name} is in status {item.status}")
    kind = "DisassociateIdentityProviderConfig"
    updates.refuse_second(cluster, kind)
    item.status = "DELETING"
    said = {"IdentityProviderConfig": params["identityProviderConfig"]}
    apply = lambda: cluster.identity_providers.pop(name, None) and None
    return updates.start(region, cluster, cluster, kind, said, "identity.delete", apply)
