"""Lists everything that exists, but for what AWS itself puts into an account."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moto.autoscaling.models import autoscaling_backends
from moto.ec2.models import ec2_backends
from moto.elbv2.models import elbv2_backends
from moto.iam.models import iam_backends
from moto.kms.models import kms_backends
from moto.logs.models import logs_backends
from moto.s3.models import s3_backends
from moto.secretsmanager.models import secretsmanager_backends
from moto.sqs.models import sqs_backends

from .eks import tags as eks_tags
from .eks.service import Eks
from .options import Options

Found = tuple[str, str, str, dict[str, str]]


def listed(eks: Eks, options: Options) -> list[dict[str, Any]]:
    """All resources: service, kind, account, region, id, name and tags."""
    found = []
    sources = (
        ("ec2", ec2_backends, _ec2),
        ("autoscaling", autoscaling_backends, _autoscaling),
        ("elasticloadbalancing", elbv2_backends, _load_balancers),
        ("kms", kms_backends, _kms),
        ("logs", logs_backends, _logs),
        ("s3", s3_backends, _s3),
        ("secretsmanager", secretsmanager_backends, _secrets),
        ("sqs", sqs_backends, _sqs),
        ("iam", iam_backends, lambda backend: _iam(backend, {user.name for user in options.users})),
    )
    for service, backends, read in sources:
        for account, region, backend in list(backends.iter_backends()):
            found += [_entry(service, account, region, *item) for item in read(backend)]
    for region, cluster in eks.clusters():
        for kind, name, arn, data in eks_tags.items(cluster):
            found.append(_entry("eks", region.account, region.name, kind, arn, name, data["tags"]))
    return found


def _entry(
    service: str, account: str, region: str, kind: str, id: str, name: str, tags: dict[str, str]
) -> dict[str, Any]:
    place = {"service": service, "kind": kind, "account": account, "region": region}
    return {**place, "id": id, "name": name, "tags": tags}


def _tagged(kind: str, item: Any) -> Found:
    """Something of EC2, whose tags are all kept in one way."""
    tags = {tag["key"]: tag["value"] for tag in item.get_tags()}
    name = tags.get("Name") or getattr(item, "name", None) or item.id
    return kind, item.id, str(name), tags


def _ec2(ec2: Any) -> Iterator[Found]:
    vpcs = {vpc.id: vpc for vpc in ec2.vpcs.values()}
    own = lambda vpc_id: vpc_id in vpcs and not vpcs[vpc_id].is_default
    yield from (_tagged("vpc", vpc) for vpc in vpcs.values() if not vpc.is_default)
    for subnets in ec2.subnets.values():
        yield from (_tagged("subnet", one) for one in subnets.values() if own(one.vpc_id) or not one.default_for_az)
    yield from (_tagged("internet-gateway", one) for one in ec2.internet_gateways.values()
                if not (one.vpc and one.vpc.is_default))
    # The main table, the default group and the default ACL of a VPC come and go with it.
    yield from (_tagged("route-table", one) for one in ec2.route_tables.values() if not one.main_association_id)
    yield from (_tagged("network-acl", one) for one in ec2.network_acls.values() if not _is_default_acl(one))
    for groups in ec2.groups.values():
        yield from (_tagged("security-group", group) for group in groups.values() if group.name != "default")
    yield from (_tagged("instance", one) for one in ec2.all_instances() if one.state != "terminated")
    yield from (_tagged("network-interface", one) for one in ec2.enis.values() if not _ended(one))
    yield from (_tagged("volume", one) for one in ec2.volumes.values())
    yield from (_tagged("nat-gateway", one) for one in ec2.nat_gateways.values() if one.state != "deleted")
    yield from (_tagged("vpc-endpoint", one) for one in ec2.vpc_end_points.values() if one.state != "deleted")
    yield from (_tagged("launch-template", one) for one in ec2.launch_templates.values())
    for address in ec2.addresses:
        tags = {tag["key"]: tag["value"] for tag in address.get_tags()}
        yield "elastic-ip", address.allocation_id or address.public_ip, address.public_ip, tags
    for pair in ec2.key_pairs.values():
        yield "key-pair", pair.id, pair.name, {}


def _is_default_acl(acl: Any) -> bool:
    return bool(acl.default) and acl.default != "false"


def _ended(eni: Any) -> bool:
    instance = getattr(eni, "instance", None)
    return instance is not None and instance.state == "terminated"


def _autoscaling(backend: Any) -> Iterator[Found]:
    for name, group in backend.autoscaling_groups.items():
        yield "group", group.arn, name, {tag["Key"]: tag["Value"] for tag in group.tags}
    for name, one in backend.launch_configurations.items():
        yield "launch-configuration", one.arn, name, {}


def _load_balancers(backend: Any) -> Iterator[Found]:
    for arn, balancer in backend.load_balancers.items():
        yield "load-balancer", arn, balancer.name, {}
    for arn, group in backend.target_groups.items():
        yield "target-group", arn, group.name, {}


def _kms(backend: Any) -> Iterator[Found]:
    for id, key in backend.keys.items():
        # Keys of AWS itself are named by an alias; a key that was deleted waits for its end.
        by_aws = any(alias.startswith("alias/aws/") for alias in key.aliases)
        if key.key_state != "PendingDeletion" and not by_aws:
            yield "key", id, key.description or id, {}


def _logs(backend: Any) -> Iterator[Found]:
    for name, group in backend.groups.items():
        yield "log-group", group.arn, name, {}


def _s3(backend: Any) -> Iterator[Found]:
    for name in backend.buckets:
        yield "bucket", name, name, {}


def _secrets(backend: Any) -> Iterator[Found]:
    for secret in backend.secrets.values():
        if not secret.is_deleted():
            yield "secret", secret.arn, secret.name, {}


def _sqs(backend: Any) -> Iterator[Found]:
    for name, queue in backend.queues.items():
        yield "queue", queue.queue_arn, name, {}


def _iam(iam: Any, configured: set[str]) -> Iterator[Found]:
    for role in iam.get_roles():
        if not role.path.startswith("/aws-service-role/"):
            yield "role", role.arn, role.name, {tag["Key"]: tag["Value"] for tag in role.tags}
    for name, user in iam.users.items():
        if name not in configured:
            yield "user", user.arn, name, {}
    for arn, policy in iam.managed_policies.items():
        if ":iam::aws:" not in arn:
            yield "policy", arn, policy.name, {tag["Key"]: tag["Value"] for tag in policy.get_tags()}
    for profile in iam.get_instance_profiles():
        yield "instance-profile", profile.arn, profile.name, {}
    for arn in iam.open_id_providers:
        yield "oidc-provider", arn, arn.partition("/")[2], {}
    for name in iam.groups:
        yield "group", name, name, {}
