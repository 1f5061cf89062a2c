"""Add-ons. Those whose pods need a node are DEGRADED while there is none."""

from __future__ import annotations

from typing import Any

import yaml

from ..request import Call
from . import catalog, fleet, pod_identity, updates
from .errors import in_use, invalid_parameter, not_found
from .state import Cluster, Data, Item, Region, new_id, page


def _find(cluster: Cluster, name: str) -> Item:
    if name not in cluster.addons:
        raise not_found(f"No addon: {name} found in cluster: {cluster.name}", clusterName=cluster.name, addonName=name)
    return cluster.addons[name]


def _checked_version(cluster: Cluster, name: str, version: str | None) -> str:
    if name not in catalog.ADDONS:
        raise invalid_parameter(f"Addon {name} specified is not supported", clusterName=cluster.name, addonName=name)
    versions = catalog.addon_versions(name, cluster.data["version"])
    if version and version not in versions:
        raise invalid_parameter(
            f"Addon version specified is not supported: {version} of {name} for {cluster.data['version']}; "
            f"there are {', '.join(versions)}",
            clusterName=cluster.name,
            addonName=name,
        )
    return version or versions[0]


def _checked_values(text: str | None) -> str | None:
    """Configuration has to be an object of JSON or YAML. Its fields are not checked."""
    try:
        value: Any = yaml.safe_load(text) if text else {}
    except yaml.YAMLError:
        value = None
    if not isinstance(value, dict):
        raise invalid_parameter(
            "ConfigurationValue provided in request is not supported: Json schema validation failed with error: "
            "[$: string found, object expected]"
        )
    return text


def create(region: Region, params: Data, call: Call) -> Data:
    """CreateAddon."""
    cluster, name = region.active_cluster(params["clusterName"]), params["addonName"]
    token = params.get("clientRequestToken")
    existing = cluster.addons.get(name)
    if existing:
        if token and existing.token == token:
            return {"addon": shown(region, cluster, existing)}
        raise in_use("Addon already exists.", clusterName=cluster.name, addonName=name)
    data = {
        "addonName": name,
        "clusterName": cluster.name,
        "status": "CREATING",
        "addonVersion": _checked_version(cluster, name, params.get("addonVersion")),
        "health": {"issues": []},
        "addonArn": region.arn(f"addon/{cluster.name}/{name}/{new_id()}"),
        "createdAt": region.clock.time(),
        "modifiedAt": region.clock.time(),
        "serviceAccountRoleArn": params.get("serviceAccountRoleArn"),
        "tags": params.get("tags", {}),
        "publisher": "eks",
        "owner": "aws",
        "configurationValues": _checked_values(params.get("configurationValues")),
        "namespaceConfig": {"namespace": catalog.ADDONS[name].namespace},
    }
    addon = Item(data, token)
    _associate(region, cluster, addon, params.get("podIdentityAssociations"))
    cluster.addons[name] = addon

    def finish() -> None:
        if addon.status == "CREATING":
            addon.status = "ACTIVE"

    region.after("addon.create", finish)
    return {"addon": shown(region, cluster, addon)}


def _associate(region: Region, cluster: Cluster, addon: Item, wanted: list[Data] | None) -> None:
    """Makes the pod identity associations that belong to an add-on those that are asked for."""
    if wanted is None:
        return
    owner = addon.data["addonArn"]
    for id in [id for id, item in cluster.associations.items() if item.data.get("ownerArn") == owner]:
        del cluster.associations[id]
    for entry in wanted:
        place = {"namespace": catalog.ADDONS[addon.data["addonName"]].namespace, **entry}
        pod_identity.add(region, cluster, place, None, owner)


def shown(region: Region, cluster: Cluster, addon: Item) -> Data:
    """An add-on as it is told: whether it is healthy depends on the nodes of this moment."""
    data = dict(addon.data)
    owned = [item.data for item in cluster.associations.values() if item.data.get("ownerArn") == data["addonArn"]]
    data["podIdentityAssociations"] = [item["associationArn"] for item in owned] or None
    lacks = catalog.ADDONS[data["addonName"]].needs_nodes and not fleet.nodes(region, cluster)
    if addon.status == "ACTIVE" and lacks and not cluster.fargate:
        issue = {
            "code": "InsufficientNumberOfReplicas",
            "message": "The add-on is unhealthy because it doesn't have the desired number of replicas.",
        }
        data.update(status="DEGRADED", health={"issues": [issue]})
    return data


def describe(region: Region, params: Data) -> Data:
    """DescribeAddon."""
    cluster = region.cluster(params["clusterName"])
    return {"addon": shown(region, cluster, _find(cluster, params["addonName"]))}


def listed(region: Region, params: Data) -> Data:
    """ListAddons."""
    return page(params, sorted(region.cluster(params["clusterName"]).addons), "addons")


def update(region: Region, params: Data) -> Data:
    """UpdateAddon."""
    cluster = region.active_cluster(params["clusterName"])
    addon = _find(cluster, params["addonName"])
    name = addon.data["addonName"]
    if addon.status in ("CREATING", "UPDATING", "DELETING"):
        raise in_use(
            f"Addon {name} cannot be updated as it is currently in {addon.status} state",
            clusterName=cluster.name,
            addonName=name,
        )
    change: Data = {"modifiedAt": region.clock.time()}
    if params.get("addonVersion"):
        change["addonVersion"] = _checked_version(cluster, name, params["addonVersion"])
    if params.get("configurationValues") is not None:
        change["configurationValues"] = _checked_values(params["configurationValues"])
    if params.get("serviceAccountRoleArn"):
        change["serviceAccountRoleArn"] = params["serviceAccountRoleArn"]
    said = {
        "AddonVersion": params.get("addonVersion"),
        "ServiceAccountRoleArn": params.get("serviceAccountRoleArn"),
        "ResolveConflicts": params.get("resolveConflicts"),
        "ConfigurationValues": params.get("configurationValues"),
    }

    def apply() -> None:
        addon.data.update(change)
        _associate(region, cluster, addon, params.get("podIdentityAssociations"))

    return updates.start(region, cluster, addon, "AddonUpdate", said, "addon.update", apply)


def delete(region: Region, params: Data) -> Data:
    """DeleteAddon."""
    cluster = region.cluster(params["clusterName"])
    name = params["addonName"]
    addon = _find(cluster, name)
    if addon.status != "DELETING":
        addon.status = "DELETING"

        def finish() -> None:
            if not params.get("preserve"):
                _associate(region, cluster, addon, [])
            cluster.addons.pop(name, None)

        region.after("addon.delete", finish)
    return {"addon": shown(region, cluster, addon)}


def describe_configuration(region: Region, params: Data) -> Data:
    """DescribeAddonConfiguration: a schema that takes any object."""
    name, version = params["addonName"], params["addonVersion"]
    if name not in catalog.ADDONS:
        raise invalid_parameter(f"Addon {name} specified is not supported")
    schema = '{"$schema":"http://json-schema.org/draft-06/schema#","type":"object"}'
    return {"addonName": name, "addonVersion": version, "configurationSchema": schema}
