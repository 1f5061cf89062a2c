"""The instances of a node group: a launch template, an autoscaling group and an instance profile, made by EKS."""

from __future__ import annotations

import copy
from typing import Any

from moto.core.types import Base64EncodedString

from . import catalog
from .state import Cluster, Data, Item, Region, new_id


def _tags(cluster: Cluster, name: str) -> dict[str, str]:
    return {
        "eks:cluster-name": cluster.name,
        "eks:nodegroup-name": name,
        f"kubernetes.io/cluster/{cluster.name}": "owned",
    }


def names(data: Data) -> tuple[str, str]:
    """Names of the autoscaling group, and of the launch template and instance profile."""
    uuid = data["nodegroupArn"].rpartition("/")[2]
    return f"eks-{data['nodegroupName']}-{uuid}", f"eks-{uuid}"


def launch(region: Region, cluster: Cluster, group: Item) -> None:
    """Makes the three; the autoscaling group starts its instances at once."""
    data = group.data
    scaler, common = names(data)
    tags = _tags(cluster, data["nodegroupName"])
    profile = region.iam.create_instance_profile(common, "/", [])
    role = region.role(data["nodeRole"])
    if role:
        region.iam.add_role_to_instance_profile(common, role.name)
    template = region.ec2.create_launch_template(
        common, "", _template(region, cluster, data, profile.name), {"launch-template": tags}
    )
    scaling = data["scalingConfig"]
    region.autoscaling.create_auto_scaling_group(
        name=scaler,
        availability_zones=[],
        desired_capacity=scaling["desiredSize"],
        max_size=scaling["maxSize"],
        min_size=scaling["minSize"],
        launch_config_name="",
        launch_template={"LaunchTemplateId": template.id, "Version": "$Latest"},
        vpc_zone_identifier=",".join(data["subnets"]),
        default_cooldown=None,
        health_check_period=None,
        health_check_type="EC2",
        load_balancers=[],
        target_group_arns=[],
        placement_group=None,
        termination_policies=[],
        capacity_rebalance=data["capacityType"] == "SPOT",
        tags=[_scaler_tag(scaler, key, value) for key, value in tags.items()],
    )


def _scaler_tag(scaler: str, key: str, value: str) -> Data:
    return {
        "Key": key,
        "Value": value,
        "PropagateAtLaunch": True,
        "ResourceId": scaler,
        "ResourceType": "auto-scaling-group",
    }


def _template(region: Region, cluster: Cluster, data: Data, profile: str) -> Data:
    """The user's own launch template, completed; or one of EKS alone."""
    own: Data = {}
    given = data.get("launchTemplate")
    if given:
        template = region.ec2.get_launch_template(given["id"])
        own = copy.deepcopy(template.get_version(given.get("version") or "$Default").data)
    arm = "ARM" in data["amiType"]
    own.setdefault("ImageId", catalog.image_id(data["version"], arm))
    own.setdefault("InstanceType", data["instanceTypes"][0] if data.get("instanceTypes") else "t3.medium")
    own.setdefault("SecurityGroupIds", [cluster.data["resourcesVpcConfig"]["clusterSecurityGroupId"]])
    own.setdefault("UserData", Base64EncodedString.from_raw_string(f"node of {cluster.name}"))
    own["IamInstanceProfile"] = {"Name": profile}
    return own


def scaler(region: Region, group: Item) -> Any | None:
    """The autoscaling group; none where somebody deleted it."""
    return region.autoscaling.autoscaling_groups.get(names(group.data)[0])


def scale(region: Region, group: Item) -> None:
    """Brings the number of instances in line with the node group."""
    found, wanted = scaler(region, group), group.data["scalingConfig"]
    if found:
        found.min_size, found.max_size = wanted["minSize"], wanted["maxSize"]
        found.set_desired_capacity(wanted["desiredSize"])


def observed(region: Region, group: Item) -> Data:
    """The sizes that the autoscaling group has now: an autoscaler changes them there."""
    found = scaler(region, group)
    if not found:
        return group.data["scalingConfig"]
    return {"minSize": found.min_size, "maxSize": found.max_size, "desiredSize": found.desired_capacity}


def roll(region: Region, cluster: Cluster, group: Item) -> None:
    """Replaces each instance by one of the group's version and launch template."""
    found, common = scaler(region, group), names(group.data)[1]
    if not found:
        return
    template = region.ec2.get_launch_template_by_name(common)
    template.create_version(_template(region, cluster, group.data, common), new_id())
    old = [state.instance.id for state in found.instance_states]
    found.instance_states = []
    found.set_desired_capacity(found.desired_capacity)
    if old:
        region.ec2.terminate_instances(old)


def remove(region: Region, group: Item) -> None:
    """Ends the instances and removes what `launch` made."""
    own, common = names(group.data)
    if own in region.autoscaling.autoscaling_groups:
        region.autoscaling.delete_auto_scaling_group(own)
    template = region.ec2.launch_template_name_to_ids.get(common)
    if template:
        region.ec2.delete_launch_template(None, template)
    role = region.role(group.data["nodeRole"])
    if any(profile.name == common for profile in region.iam.get_instance_profiles()):
        if role:
            region.iam.remove_role_from_instance_profile(common, role.name)
        region.iam.delete_instance_profile(common)


def nodes(region: Region, cluster: Cluster) -> int:
    """How many instances can run pods of a cluster: those of node groups, and machines that joined by themselves."""
    count = 0
    for instance in region.ec2.all_instances():
        tags = {tag["key"]: tag["value"] for tag in instance.get_tags()}
        active = cluster.nodegroups.get(tags.get("eks:nodegroup-name", ""))
        managed = tags.get("eks:cluster-name") == cluster.name and active and active.status != "CREATING"
        joined = "eks:cluster-name" not in tags and f"kubernetes.io/cluster/{cluster.name}" in tags
        count += instance.state == "running" and bool(managed or joined)
    return count
