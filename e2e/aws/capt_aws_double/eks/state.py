"""Everything EKS knows in one account and region."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from moto.autoscaling.models import AutoScalingBackend, autoscaling_backends
from moto.ec2.models import EC2Backend, ec2_backends
from moto.iam.models import IAMBackend, iam_backends
from moto.utilities.utils import get_partition

from ..clock import Clock
from ..consistency import Consistency
from ..faults import Faults
from ..options import Options
from .errors import invalid_request, not_found

Data = dict[str, Any]


@dataclass
class Item:
    """One thing. `data` is its shape in the model; the rest is what AWS does not tell."""

    data: Data
    # The client's token of the call that made it: the same call again is no second one.
    token: str | None = None

    @property
    def status(self) -> str:
        """Its status by the model."""
        return self.data["status"]

    @status.setter
    def status(self, status: str) -> None:
        self.data["status"] = status


@dataclass
class AccessEntry(Item):
    """A principal that a cluster knows."""

    policies: dict[str, Data] = field(default_factory=dict)


@dataclass
class Update:
    """A change that is under way or done."""

    data: Data
    nodegroup: str | None = None
    addon: str | None = None


@dataclass
class Cluster(Item):
    """A cluster and all that lives and dies with it."""

    nodegroups: dict[str, Item] = field(default_factory=dict)
    fargate: dict[str, Item] = field(default_factory=dict)
    addons: dict[str, Item] = field(default_factory=dict)
    access: dict[str, AccessEntry] = field(default_factory=dict)
    associations: dict[str, Item] = field(default_factory=dict)
    identity_providers: dict[str, Item] = field(default_factory=dict)
    updates: dict[str, Update] = field(default_factory=dict)
    # What there is to tell once it is ACTIVE.
    endpoint: str = ""
    ca: str = ""
    interfaces: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its name."""
        return self.data["name"]

    @property
    def mode(self) -> str:
        """How principals are authenticated."""
        return self.data["accessConfig"]["authenticationMode"]


class Region:
    """EKS in one account and region."""

    def __init__(
        self,
        account: str,
        name: str,
        options: Options,
        clock: Clock,
        faults: Faults,
        consistency: Consistency,
        ca: str,
    ) -> None:
        self.account, self.name, self.partition = account, name, get_partition(name)
        self.options, self.clock, self.faults, self.ca = options, clock, faults, ca
        self._consistency = consistency
        self.clusters: dict[str, Cluster] = {}

    @property
    def ec2(self) -> EC2Backend:
        """moto's EC2."""
        return ec2_backends[self.account][self.name]

    @property
    def iam(self) -> IAMBackend:
        """moto's IAM."""
        return iam_backends[self.account][self.partition]

    @property
    def autoscaling(self) -> AutoScalingBackend:
        """moto's EC2 Auto Scaling."""
        return autoscaling_backends[self.account][self.name]

    @property
    def dns_suffix(self) -> str:
        """The end of AWS' host names here."""
        return "amazonaws.com.cn" if self.partition == "aws-cn" else "amazonaws.com"

    def arn(self, path: str) -> str:
        """ARN of something of EKS."""
        return f"arn:{self.partition}:eks:{self.name}:{self.account}:{path}"

    def cluster(self, name: str) -> Cluster:
        """A cluster that exists."""
        if name not in self.clusters:
            raise not_found(f"No cluster found for name: {name}.", clusterName=name)
        return self.clusters[name]

    def active_cluster(self, name: str) -> Cluster:
        """A cluster that takes changes."""
        cluster = self.cluster(name)
        if cluster.status not in ("ACTIVE", "UPDATING"):
            raise invalid_request(f"Cluster '{name}' is not in ACTIVE status", clusterName=name)
        return cluster

    def after(self, kind: str, action: Callable[[], None]) -> None:
        """Does something once the duration of that kind of change is over."""
        self.clock.after(self.options.durations[kind], action)

    def role(self, arn: str) -> Any | None:
        """An IAM role; none where it does not exist here, or EKS does not see it yet."""
        if self._consistency.hides_role(arn):
            return None
        try:
            return self.iam.get_role_by_arn(arn)
        except Exception:
            return None


def new_id() -> str:
    """An id as EKS gives them."""
    return str(uuid.uuid4())


def page(params: Data, names: list[Any], key: str) -> Data:
    """One page of a list."""
    start = int(params.get("nextToken") or 0)
    end = start + params.get("maxResults", 100)
    return {key: names[start:end], "nextToken": str(end) if end < len(names) else None}
