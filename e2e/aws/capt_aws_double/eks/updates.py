"""Changes that take time, and how they are followed."""

from __future__ import annotations

import json
from collections.abc import Callable

from .errors import in_use, not_found
from .state import Cluster, Data, Item, Region, Update, new_id, page


def start(
    region: Region, cluster: Cluster, item: Item, kind: str, params: Data, duration: str, apply: Callable[[], None]
) -> Data:
    """Starts a change of a cluster, node group or add-on; `apply` is called when its time is over."""
    listed = [{"type": key, "value": _text(value)} for key, value in params.items() if value is not None]
    data = {
        "id": new_id(),
        "status": "InProgress",
        "type": kind,
        "params": listed,
        "createdAt": region.clock.time(),
        "errors": [],
    }
    update = Update(data, item.data.get("nodegroupName"), item.data.get("addonName"))
    cluster.updates[data["id"]] = update
    item.status = "UPDATING"

    def finish() -> None:
        apply()
        data["status"] = "Successful"
        if item.status == "UPDATING":
            item.status = "ACTIVE"

    region.after(duration, finish)
    return {"update": dict(data)}


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def refuse_second(cluster: Cluster, kind: str) -> None:
    """Refuses a change of a cluster that is being changed."""
    running = [update for update in _of(cluster, None, None) if update.data["status"] == "InProgress"]
    if running:
        raise in_use(
            f"Cannot {kind} because cluster {cluster.name} currently has update {running[0].data['id']} in progress",
            clusterName=cluster.name,
        )


def _of(cluster: Cluster, nodegroup: str | None, addon: str | None) -> list[Update]:
    return [update for update in cluster.updates.values() if (update.nodegroup, update.addon) == (nodegroup, addon)]


def describe(region: Region, params: Data) -> Data:
    """DescribeUpdate."""
    cluster = region.cluster(params["name"])
    updates = _of(cluster, params.get("nodegroupName"), params.get("addonName"))
    found = next((update for update in updates if update.data["id"] == params["updateId"]), None)
    if found is None:
        raise not_found(f"No update found for ID: {params['updateId']}", clusterName=cluster.name)
    return {"update": found.data}


def listed(region: Region, params: Data) -> Data:
    """ListUpdates."""
    cluster = region.cluster(params["name"])
    updates = _of(cluster, params.get("nodegroupName"), params.get("addonName"))
    return page(params, [update.data["id"] for update in updates], "updateIds")
