"""Managed node groups."""

from __future__ import annotations

from typing import Any

from ..request import Call
from . import access, catalog, fleet, network, updates
from .errors import in_use, invalid_parameter, invalid_request, not_found
from .state import Cluster, Data, Item, Region, new_id, page

# Since this version there are no images of Amazon Linux 2.
FIRST_WITHOUT_AL2 = 33


def _find(cluster: Cluster, name: str) -> Item:
    if name not in cluster.nodegroups:
        raise not_found(f"No node group found for name: {name}.", clusterName=cluster.name, nodegroupName=name)
    return cluster.nodegroups[name]


def create(region: Region, params: Data, call: Call) -> Data:
    """CreateNodegroup."""
    cluster = region.cluster(params["clusterName"])
    name, token = params["nodegroupName"], params.get("clientRequestToken")
    existing = cluster.nodegroups.get(name)
    if existing:
        if token and existing.token == token:
            return {"nodegroup": shown(region, existing)}
        raise in_use(
            f"NodeGroup already exists with name {name} and cluster name {cluster.name}",
            clusterName=cluster.name,
            nodegroupName=name,
        )
    if cluster.status not in ("ACTIVE", "UPDATING"):
        raise invalid_request(f"Cluster '{cluster.name}' is not in ACTIVE status", clusterName=cluster.name)
    data = _data(region, cluster, params)
    group = Item(data, token)
    cluster.nodegroups[name] = group
    if cluster.mode != "CONFIG_MAP":
        access.admit_nodes(region, cluster, data["nodeRole"], data["amiType"])
    lacking = region.faults.lacks_capacity("CreateNodegroup")
    fleet_of = {**data["scalingConfig"]}
    if lacking:
        data["scalingConfig"] = {**fleet_of, "minSize": 0, "desiredSize": 0}
    fleet.launch(region, cluster, group)
    data["scalingConfig"] = fleet_of

    def finish() -> None:
        if group.status == "CREATING":
            group.status = "CREATE_FAILED" if lacking else "ACTIVE"
        if lacking:
            group.data["health"] = {"issues": [_no_capacity(region, group)]}

    region.after("nodegroup.create", finish)
    return {"nodegroup": shown(region, group)}


def _no_capacity(region: Region, group: Item) -> Data:
    kind = (group.data.get("instanceTypes") or ["t3.medium"])[0]
    return {
        "code": "AsgInstanceLaunchFailures",
        "message": "Could not launch On-Demand Instances. InsufficientInstanceCapacity - We currently do not have "
        f"sufficient {kind} capacity in the Availability Zone you requested. Launching EC2 instance failed.",
        "resourceIds": [fleet.names(group.data)[0]],
    }


def _data(region: Region, cluster: Cluster, params: Data) -> Data:
    """The checked node group."""
    name, version = params["nodegroupName"], params.get("version") or cluster.data["version"]
    if not name.replace("-", "a").replace("_", "a").isalnum() or len(name) > 63:
        raise invalid_parameter(f"nodegroupName {name} is not valid", clusterName=cluster.name, nodegroupName=name)
    subnets = [network.subnet(region, id) for id in params["subnets"]]
    if any(subnet.vpc_id != cluster.data["resourcesVpcConfig"]["vpcId"] for subnet in subnets):
        raise invalid_parameter("Subnets are not in the VPC of the cluster", clusterName=cluster.name)
    _check_role(region, params["nodeRole"])
    _check_version(region, cluster, version)
    template = _template(region, params.get("launchTemplate"))
    own_image = template and "ImageId" in template[1]
    ami_type = params.get("amiType") or ("CUSTOM" if own_image else "AL2023_x86_64_STANDARD")
    if ami_type.startswith("AL2_") and catalog.minor(version) >= FIRST_WITHOUT_AL2:
        raise invalid_parameter(
            f"AMI Type {ami_type} is only supported for kubernetes versions 1.{FIRST_WITHOUT_AL2 - 1} or earlier"
        )
    if template and "InstanceType" in template[1] and params.get("instanceTypes"):
        raise invalid_parameter("You cannot specify an instance type in both the request and the launch template.")
    if template and params.get("diskSize"):
        raise invalid_parameter("Disk size must be specified within the launch template.")
    in_template = template and "InstanceType" in template[1]
    return {
        "nodegroupName": name,
        "nodegroupArn": region.arn(f"nodegroup/{cluster.name}/{name}/{new_id()}"),
        "clusterName": cluster.name,
        "version": version,
        "releaseVersion": params.get("releaseVersion") or (None if own_image else catalog.release_version(version)),
        "createdAt": region.clock.time(),
        "modifiedAt": region.clock.time(),
        "status": "CREATING",
        "capacityType": params.get("capacityType", "ON_DEMAND"),
        "scalingConfig": _scaling(params.get("scalingConfig", {}), {"minSize": 1, "maxSize": 2, "desiredSize": 2}),
        "instanceTypes": params.get("instanceTypes") or (None if in_template else ["t3.medium"]),
        "subnets": params["subnets"],
        "remoteAccess": params.get("remoteAccess"),
        "amiType": ami_type,
        "nodeRole": params["nodeRole"],
        "labels": params.get("labels", {}),
        "taints": params.get("taints", []),
        "diskSize": None if template else params.get("diskSize", 20),
        "health": {"issues": []},
        "updateConfig": params.get("updateConfig") or {"maxUnavailable": 1},
        "nodeRepairConfig": params.get("nodeRepairConfig"),
        "launchTemplate": template[0] if template else None,
        "tags": params.get("tags", {}),
    }


def _check_role(region: Region, arn: str) -> None:
    role = region.role(arn)
    if role is None:
        raise invalid_parameter(f"The role with name {arn.rpartition('/')[2]} cannot be found.")
    suffix = ".cn" if region.partition == "aws-cn" else ""
    if "ec2.amazonaws.com" not in role.assume_role_policy_document:
        raise invalid_parameter(
            f"Following required service principals [ec2.amazonaws.com{suffix}] were not found in the trust "
            f"relationships of nodeRole {arn}"
        )


def _check_version(region: Region, cluster: Cluster, version: str) -> None:
    current = cluster.data["version"]
    if version not in region.options.versions:
        raise invalid_parameter("unsupported Kubernetes version", clusterName=cluster.name)
    if catalog.minor(version) > catalog.minor(current):
        raise invalid_parameter(
            f"Nodegroup Kubernetes version {version} must not be greater than the cluster's version {current}",
            clusterName=cluster.name,
        )


def _template(region: Region, given: Data | None) -> tuple[Data, Data] | None:
    """A launch template by id or name: what is told of it, and its content."""
    if not given:
        return None
    try:
        if given.get("id"):
            template: Any = region.ec2.get_launch_template(given["id"])
        else:
            template = region.ec2.get_launch_template_by_name(given["name"])
        version = given.get("version") or str(template.default_version_number)
        content = template.get_version(version).data
    except Exception as error:
        raise invalid_request(f"Launch template {given.get('id') or given.get('name')} does not exist.") from error
    return {"id": template.id, "name": template.name, "version": version}, content


def _scaling(wanted: Data, before: Data) -> Data:
    sizes = {**before, **wanted}
    if sizes["minSize"] > sizes["desiredSize"]:
        raise invalid_parameter(
            f"Minimum capacity {sizes['minSize']} can't be greater than desired size {sizes['desiredSize']}"
        )
    if sizes["desiredSize"] > sizes["maxSize"]:
        raise invalid_parameter(
            f"Desired capacity {sizes['desiredSize']} can't be greater than max size {sizes['maxSize']}"
        )
    return sizes


def shown(region: Region, group: Item) -> Data:
    """A node group as it is told, with what its autoscaling group is like."""
    resources = {"autoScalingGroups": [{"name": fleet.names(group.data)[0]}]}
    told = {**group.data, "resources": resources}
    if group.status == "CREATE_FAILED":
        return told
    if group.status == "ACTIVE" and not fleet.scaler(region, group):
        name = resources["autoScalingGroups"][0]["name"]
        issue = {"code": "AutoScalingGroupNotFound", "message": "Autoscaling group not found", "resourceIds": [name]}
        return {**told, "status": "DEGRADED", "health": {"issues": [issue]}}
    return {**told, "scalingConfig": fleet.observed(region, group)}


def describe(region: Region, params: Data) -> Data:
    """DescribeNodegroup."""
    return {"nodegroup": shown(region, _find(region.cluster(params["clusterName"]), params["nodegroupName"]))}


def listed(region: Region, params: Data) -> Data:
    """ListNodegroups."""
    return page(params, sorted(region.cluster(params["clusterName"]).nodegroups), "nodegroups")


def _changeable(region: Region, params: Data) -> tuple[Cluster, Item]:
    cluster = region.cluster(params["clusterName"])
    group = _find(cluster, params["nodegroupName"])
    if group.status != "ACTIVE":
        raise in_use(
            "Nodegroup cannot be updated as it is currently not in Active State",
            clusterName=cluster.name,
            nodegroupName=params["nodegroupName"],
        )
    return cluster, group


def update_config(region: Region, params: Data) -> Data:
    """UpdateNodegroupConfig."""
    cluster, group = _changeable(region, params)
    change: Data = {}
    said: Data = {}
    if "scalingConfig" in params:
        sizes = _scaling(params["scalingConfig"], fleet.observed(region, group))
        change["scalingConfig"] = sizes
        said = {"MinSize": sizes["minSize"], "MaxSize": sizes["maxSize"], "DesiredSize": sizes["desiredSize"]}
    if "labels" in params:
        labels, payload = dict(group.data["labels"]), params["labels"]
        labels.update(payload.get("addOrUpdateLabels", {}))
        change["labels"] = {key: value for key, value in labels.items() if key not in payload.get("removeLabels", [])}
        said |= {"LabelsToAdd": payload.get("addOrUpdateLabels"), "LabelsToRemove": payload.get("removeLabels")}
    if "taints" in params:
        payload = params["taints"]
        identity = lambda taint: (taint.get("key"), taint.get("effect"))
        gone = {identity(taint) for taint in payload.get("removeTaints", []) + payload.get("addOrUpdateTaints", [])}
        kept = [taint for taint in group.data["taints"] if identity(taint) not in gone]
        change["taints"] = kept + payload.get("addOrUpdateTaints", [])
        said |= {"TaintsToAdd": payload.get("addOrUpdateTaints"), "TaintsToRemove": payload.get("removeTaints")}
    if "updateConfig" in params:
        change["updateConfig"] = params["updateConfig"]
        said |= {"MaxUnavailable": params["updateConfig"].get("maxUnavailable")}
    if "nodeRepairConfig" in params:
        change["nodeRepairConfig"] = params["nodeRepairConfig"]
        said |= {"NodeRepairEnabled": params["nodeRepairConfig"].get("enabled")}

    def apply() -> None:
        group.data.update(change, modifiedAt=region.clock.time())
        if "scalingConfig" in change:
            fleet.scale(region, group)

    return updates.start(region, cluster, group, "ConfigUpdate", said, "nodegroup.update", apply)


def update_version(region: Region, params: Data) -> Data:
    """UpdateNodegroupVersion: another version of Kubernetes, image or launch template; new instances come."""
    cluster, group = _changeable(region, params)
    version = params.get("version") or cluster.data["version"]
    template = _template(region, params.get("launchTemplate"))
    if template and not params.get("version") and group.data["amiType"] == "CUSTOM":
        version = group.data["version"]
    _check_version(region, cluster, version)
    if catalog.minor(version) < catalog.minor(group.data["version"]):
        raise invalid_parameter(
            f"Nodegroup version {group.data['version']} cannot be downgraded to {version}", clusterName=cluster.name
        )
    release = params.get("releaseVersion")
    if release and not release.startswith(version + "."):
        raise invalid_parameter(f"Requested release version {release} is not valid for kubernetes version {version}.")
    change: Data = {"version": version}
    if group.data["amiType"] != "CUSTOM":
        change["releaseVersion"] = release or catalog.release_version(version)
    if template:
        change["launchTemplate"] = template[0]
    said = {"Version": version, "ReleaseVersion": change.get("releaseVersion")}
    if template:
        said |= {"LaunchTemplateName": template[0]["name"], "LaunchTemplateVersion": template[0]["version"]}

    def apply() -> None:
        group.data.update(change, scalingConfig=fleet.observed(region, group), modifiedAt=region.clock.time())
        fleet.roll(region, cluster, group)

    return updates.start(region, cluster, group, "VersionUpdate", said, "nodegroup.update", apply)


def delete(region: Region, params: Data) -> Data:
    """DeleteNodegroup."""
    cluster = region.cluster(params["clusterName"])
    name = params["nodegroupName"]
    group = _find(cluster, name)
    if group.status in ("CREATING", "UPDATING"):
        raise in_use(
            f"Nodegroup {name} cannot be deleted as it currently has an operation in progress",
            clusterName=cluster.name,
            nodegroupName=name,
        )
    if group.status != "DELETING":
        group.status = "DELETING"

        def finish() -> None:
            fleet.remove(region, group)
            cluster.nodegroups.pop(name, None)

        region.after("nodegroup.delete", finish)
    return {"nodegroup": shown(region, group)}
