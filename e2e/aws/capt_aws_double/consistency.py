"""Eventual consistency: what was just created is not found for a while."""

from __future__ import annotations

import fnmatch
import re
import time
from dataclasses import dataclass
from typing import Any

from .request import Call, match_route


@dataclass(frozen=True)
class Kind:
    """Something that can be late to appear: how a call that creates it, and one that reads it, names it."""

    service: str
    create: str
    # Parameters that name it; with an `xml` element, its id is in the answer of the creation.
    keys: tuple[str, ...]
    code: str
    message: str
    status: int = 400
    xml: str | None = None


def _ec2(create: str, key: str, xml: str, code: str, noun: str) -> Kind:
    return Kind("ec2", create, (key,), code, f"The {noun} ID '{{}}' does not exist", xml=xml)


def _eks(create: str, *keys: str) -> Kind:
    return Kind("eks", create, keys, "ResourceNotFoundException", "No resource found for name: {}.", 404)


KINDS = (
    Kind("iam", "CreateRole", ("RoleName",), "NoSuchEntity", "The role with name {} cannot be found.", 404),
    Kind("iam", "CreateInstanceProfile", ("InstanceProfileName",), "NoSuchEntity",
         "Instance Profile {} cannot be found.", 404),
    Kind("iam", "CreatePolicy", ("PolicyArn",), "NoSuchEntity", "Policy {} was not found.", 404, "Arn"),
    _ec2("CreateVpc", "VpcId", "vpcId", "InvalidVpcID.NotFound", "vpc"),
    _ec2("CreateSubnet", "SubnetId", "subnetId", "InvalidSubnetID.NotFound", "subnet"),
    _ec2("CreateSecurityGroup", "GroupId", "groupId", "InvalidGroup.NotFound", "security group"),
    _ec2("CreateRouteTable", "RouteTableId", "routeTableId", "InvalidRouteTableID.NotFound", "routeTable"),
    _ec2("CreateInternetGateway", "InternetGatewayId", "internetGatewayId", "InvalidInternetGatewayID.NotFound",
         "internetGateway"),
    _ec2("CreateNatGateway", "NatGatewayId", "natGatewayId", "NatGatewayNotFound", "NAT gateway"),
    _ec2("AllocateAddress", "AllocationId", "allocationId", "InvalidAllocationID.NotFound", "allocation"),
    _ec2("RunInstances", "InstanceId", "instanceId", "InvalidInstanceID.NotFound", "instance"),
    _ec2("CreateLaunchTemplate", "LaunchTemplateId", "launchTemplateId", "InvalidLaunchTemplateId.NotFound",
         "launch template"),
    _eks("CreateCluster", "name"),
    _eks("CreateNodegroup", "name", "nodegroupName"),
    _eks("CreateAddon", "name", "addonName"),
    _eks("CreateAccessEntry", "name", "principalArn"),
)


@dataclass
class Hidden:
    """Something that was created and does not show yet."""

    kind: Kind
    name: tuple[str, ...]
    reads: int
    until: float


def _names(call: Call) -> dict[str, set[str]]:
    """Values of a call by parameter, lists (`VpcId.1`) under the name of the list."""
    found: dict[str, set[str]] = {}
    values: dict[str, Any] = {**call.params, **call.body}
    route = match_route(call.service, call.method, call.path)
    values.update(route[1] if route else {})
    for key, value in values.items():
        if isinstance(value, str):
            found.setdefault(key.split(".")[0], set()).add(value)
    return found


class Consistency:
    """Off until it is set."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Switches it off; everything shows."""
        self.reads, self.milliseconds, self.actions = 0, 0, ["*"]
        self._hidden: list[Hidden] = []

    def set(self, reads: int = 0, milliseconds: int = 0, actions: list[str] | None = None) -> None:
        """Hides what is created from now on, for so many reads or so long, from actions like `ec2:Describe*`."""
        self.reset()
        self.reads, self.milliseconds, self.actions = reads, milliseconds, actions or ["*"]

    def created(self, call: Call, answer: bytes) -> None:
        """Hides what a successful call created."""
        if not (self.reads or self.milliseconds):
            return
        for kind in KINDS:
            if (kind.service, kind.create) != (call.service, call.action):
                continue
            given = _names(call)
            if kind.xml:
                found = re.search(rf"<{kind.xml}>([^<]+)<".encode(), answer)
                name = (found[1].decode(),) if found else ()
            else:
                name = tuple(next(iter(given.get(key, {""}))) for key in kind.keys)
            if name:
                self._hidden.append(Hidden(kind, name, self.reads, time.monotonic() + self.milliseconds / 1000))

    def hides(self, call: Call) -> tuple[int, str, str] | None:
        """The error of a call that names something hidden; counts as a read of it."""
        if not self._hidden or call.action.startswith(("Create", "Delete", "List")) and call.service == "eks":
            return None
        if not self._chosen(f"{call.service}:{call.action}"):
            return None
        given = _names(call)
        for hidden in list(self._hidden):
            kind = hidden.kind
            named = all(value in given.get(key, ()) for key, value in zip(kind.keys, hidden.name))
            if kind.service == call.service and named and self._still(hidden):
                return kind.status, kind.code, kind.message.format("/".join(hidden.name))
        return None

    def hides_role(self, arn: str) -> bool:
        """Whether a service that is handed a role does not see it yet; chosen as the action `iam:PassRole`."""
        if not self._chosen("iam:PassRole"):
            return False
        name = (arn.rpartition("/")[2],)
        roles = [hidden for hidden in self._hidden if hidden.kind.create == "CreateRole" and hidden.name == name]
        return any(self._still(hidden) for hidden in roles)

    def _chosen(self, action: str) -> bool:
        return any(fnmatch.fnmatch(action, pattern) for pattern in self.actions)

    def _still(self, hidden: Hidden) -> bool:
        if hidden.reads > 0:
            hidden.reads -= 1
            return True
        if time.monotonic() < hidden.until:
            return True
        self._hidden.remove(hidden)
        return False
