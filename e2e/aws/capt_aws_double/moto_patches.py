"""All changes of moto itself, each with its reason. They are applied once, before moto answers anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moto.autoscaling.models import AutoScalingBackend, FakeAutoScalingGroup
from moto.core import DEFAULT_ACCOUNT_ID
from moto.ec2.exceptions import DependencyViolationError
from moto.ec2.models import EC2Backend
from moto.ec2.models import amis as moto_amis
from moto.iam import models as moto_iam

from .clock import Clock
from .eks import catalog
from .options import Options


def apply(options: Options, clock: Clock) -> None:
    """Applies all."""
    _look_up_keys_where_they_can_be()
    _add_images(options)
    _replace_instances_later(options, clock)
    _spread_over_subnets()
    _delete_nat_gateways_whole()
    _refuse_deletions_with_dependencies()


def _look_up_keys_where_they_can_be() -> None:
    """moto makes IAM of every partition, with all its managed policies, to look for a key: seconds after each reset."""

    def account_of(access_key: str) -> str:
        for account, partitions in list(moto_iam.iam_backends.items()):
            if any(access_key in backend.access_keys for backend in list(partitions.values())):
                return account
        return DEFAULT_ACCOUNT_ID

    moto_iam.get_account_id_from = account_of


def _add_images(options: Options) -> None:
    """moto has no image of nodes with the names that AWS gives them; modules look for these by name."""
    for version in options.versions:
        for arm in (False, True):
            image = {
                "ami_id": catalog.image_id(version, arm),
                "name": catalog.image_name(version, arm),
                "description": f"EKS-optimized Kubernetes node based on Amazon Linux 2023, (k8s: {version})",
                "owner_id": "602401143452",
                "public": True,
                "architecture": "arm64" if arm else "x86_64",
                "virtualization_type": "hvm",
                "root_device_type": "ebs",
                "root_device_name": "/dev/xvda",
                "state": "available",
                "hypervisor": "xen",
            }
            moto_amis.AMIS.append(image)


def _replace_instances_later(options: Options, clock: Clock) -> None:
    """moto replaces a terminated instance within the call that ends it; AWS does so later."""

    def notify(self: AutoScalingBackend, instance_ids: list[str]) -> None:
        for name, group in list(self.autoscaling_groups.items()):
            kept = [state for state in group.instance_states if state.instance.id not in instance_ids]
            if len(kept) == len(group.instance_states):
                continue
            group.instance_states = kept
            delay = options.durations["instance.replace"]
            if delay >= 0:
                clock.after(delay, lambda name=name, group=group: replace(self, name, group))

    def replace(backend: AutoScalingBackend, name: str, group: FakeAutoScalingGroup) -> None:
        if backend.autoscaling_groups.get(name) is group:
            group.set_desired_capacity(group.desired_capacity)

    AutoScalingBackend.notify_terminate_instances = notify  # type: ignore[method-assign]


def _spread_over_subnets() -> None:
    """moto puts all instances of a group into its first subnet; AWS spreads them over the zones."""
    original = FakeAutoScalingGroup.replace_autoscaling_group_instances

    def spread(self: FakeAutoScalingGroup, count_needed: int, propagated_tags: dict[str, str]) -> None:
        subnets, zones = self.vpc_zone_identifier, self.availability_zones
        if not subnets:
            return original(self, count_needed, propagated_tags)
        ids = subnets.split(",")
        try:
            for _ in range(count_needed):
                used = [state.instance.subnet_id for state in self.instance_states]
                chosen = min(ids, key=used.count)
                self.vpc_zone_identifier = chosen
                self.availability_zones = [self.ec2_backend.get_subnet(chosen).availability_zone]
                original(self, 1, dict(propagated_tags))
        finally:
            self.vpc_zone_identifier, self.availability_zones = subnets, zones

    FakeAutoScalingGroup.replace_autoscaling_group_instances = spread  # type: ignore[method-assign]


def _delete_nat_gateways_whole() -> None:
    """moto keeps the network interface of a deleted NAT gateway, and its hold on the address."""
    original = EC2Backend.delete_nat_gateway

    def delete(self: EC2Backend, nat_gateway_id: str) -> Any:
        gateway = original(self, nat_gateway_id)
        for address in self.addresses:
            if address.eni is gateway._eni:
                self.disassociate_address(association_id=address.association_id)
        self.enis.pop(gateway._eni.id, None)
        return gateway

    EC2Backend.delete_nat_gateway = delete  # type: ignore[method-assign]


def _refuse_deletions_with_dependencies() -> None:
    """moto deletes parts of a network that are in use; AWS refuses with DependencyViolation."""
    _guard("delete_vpc", _of_vpc)
    _guard("delete_subnet", _of_subnet)
    _guard("delete_security_group", _of_security_group)
    _guard("detach_internet_gateway", _of_attachment)


def _guard(name: str, problem: Callable[..., str | None]) -> None:
    original = getattr(EC2Backend, name)

    def guarded(self: EC2Backend, *args: Any, **kwargs: Any) -> Any:
        message = problem(self, *args, **kwargs)
        if message:
            raise DependencyViolationError(message)
        return original(self, *args, **kwargs)

    setattr(EC2Backend, name, guarded)


def _living(ec2: EC2Backend) -> list[Any]:
    return [instance for instance in ec2.all_instances() if instance.state != "terminated"]


def _of_vpc(ec2: EC2Backend, vpc_id: str) -> str | None:
    gateways = [gateway for gateway in ec2.internet_gateways.values() if gateway.vpc and gateway.vpc.id == vpc_id]
    groups = [group for group in ec2.groups.get(vpc_id, {}).values() if group.name != "default"]
    interfaces = [eni for eni in ec2.enis.values() if eni.subnet.vpc_id == vpc_id and not _left_over(eni)]
    endpoints = [end for end in ec2.vpc_end_points.values() if end.vpc_id == vpc_id and end.state != "deleted"]
    if gateways or groups or interfaces or endpoints:
        return f"The vpc '{vpc_id}' has dependencies and cannot be deleted."
    return None


def _of_subnet(ec2: EC2Backend, subnet_id: str) -> str | None:
    instances = [instance for instance in _living(ec2) if instance.subnet_id == subnet_id]
    interfaces = [eni for eni in ec2.enis.values() if eni.subnet and eni.subnet.id == subnet_id]
    nats = [nat for nat in ec2.nat_gateways.values() if nat.subnet_id == subnet_id and nat.state != "deleted"]
    if instances or nats or [eni for eni in interfaces if not _left_over(eni)]:
        return f"The subnet '{subnet_id}' has dependencies and cannot be deleted."
    return None


def _left_over(eni: Any) -> bool:
    """Whether an interface is that of an instance which ended: moto may keep it."""
    return getattr(eni, "instance", None) is not None and eni.instance.state == "terminated"


def _of_security_group(ec2: EC2Backend, name: str | None = None, group_id: str | None = None) -> str | None:
    users = [eni for eni in ec2.enis.values() if not _left_over(eni)]
    used = any(group.id == group_id for eni in users for group in eni.group_set)
    used = used or any(group.id == group_id for one in _living(ec2) for group in one.security_groups)
    return f"resource {group_id} has a dependent object" if group_id and used else None


def _of_attachment(ec2: EC2Backend, internet_gateway_id: str, vpc_id: str) -> str | None:
    mapped = [address for address in ec2.addresses if address.eni and address.eni.subnet.vpc_id == vpc_id]
    nats = [nat for nat in ec2.nat_gateways.values() if nat.state != "deleted"]
    public = [nat for nat in nats if ec2.get_subnet(nat.subnet_id).vpc_id == vpc_id]
    if mapped or public:
        return (
            f"Network {vpc_id} has some mapped public address(es). Please unmap those public address(es) before "
            "detaching the gateway."
        )
    return None
