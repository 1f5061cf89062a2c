"""Pod identity associations: which role the pods of a service account get."""

from __future__ import annotations

import secrets
import string

from ..request import Call
from .errors import in_use, invalid_parameter, not_found
from .state import Cluster, Data, Item, Region, page


def _find(cluster: Cluster, id: str) -> Item:
    if id not in cluster.associations:
        raise not_found(f"Association ID {id} was not found in cluster {cluster.name}.")
    return cluster.associations[id]


def add(region: Region, cluster: Cluster, given: Data, token: str | None, owner: str | None) -> Item:
    """Adds an association; there is one at most for a service account."""
    place = given["namespace"], given["serviceAccount"]
    for id, item in cluster.associations.items():
        if (item.data["namespace"], item.data["serviceAccount"]) == place:
            if token and item.token == token:
                return item
            raise in_use(f"Association already exists: {id}")
    if f":{region.account}:" in given["roleArn"] and region.role(given["roleArn"]) is None:
        raise invalid_parameter(f"Role provided in the request does not exist: {given['roleArn']}")
    id = "a-" + "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(17))
    data = {
        "clusterName": cluster.name,
        "namespace": given["namespace"],
        "serviceAccount": given["serviceAccount"],
        "roleArn": given["roleArn"],
        "associationArn": region.arn(f"podidentityassociation/{cluster.name}/{id}"),
        "associationId": id,
        "tags": given.get("tags", {}),
        "createdAt": region.clock.time(),
        "modifiedAt": region.clock.time(),
        "ownerArn": owner,
        "disableSessionTags": given.get("disableSessionTags", False),
        "targetRoleArn": given.get("targetRoleArn"),
    }
    cluster.associations[id] = Item(data, token)
    return cluster.associations[id]


def create(region: Region, params: Data, call: Call) -> Data:
    """CreatePodIdentityAssociation."""
    cluster = region.active_cluster(params["clusterName"])
    return {"association": add(region, cluster, params, params.get("clientRequestToken"), None).data}


def describe(region: Region, params: Data) -> Data:
    """DescribePodIdentityAssociation."""
    return {"association": _find(region.cluster(params["clusterName"]), params["associationId"]).data}


def listed(region: Region, params: Data) -> Data:
    """ListPodIdentityAssociations."""
    cluster = region.cluster(params["clusterName"])
    keys = ("clusterName", "namespace", "serviceAccount", "associationArn", "associationId", "ownerArn")
    found = [
        {key: item.data[key] for key in keys}
        for item in cluster.associations.values()
        if params.get("namespace") in (None, item.data["namespace"])
        and params.get("serviceAccount") in (None, item.data["serviceAccount"])
    ]
    return page(params, found, "associations")


def update(region: Region, params: Data) -> Data:
    """UpdatePodIdentityAssociation."""
    item = _find(region.cluster(params["clusterName"]), params["associationId"])
    keys = ("roleArn", "disableSessionTags", "targetRoleArn")
    item.data.update({key: params[key] for key in keys if key in params}, modifiedAt=region.clock.time())
    return {"association": item.data}


def delete(region: Region, params: Data) -> Data:
    """DeletePodIdentityAssociation."""
    cluster = region.cluster(params["clusterName"])
    item = _find(cluster, params["associationId"])
    del cluster.associations[params["associationId"]]
    return {"association": item.data}
