"""Faults on demand: rules that make calls fail as AWS does."""

from __future__ import annotations

import fnmatch
import random
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from .request import Call

KINDS = ("throttling", "5xx", "reset", "expired-token", "quota", "capacity", "slow")

# Quotas have a code of their own in EC2, by action.
EC2_QUOTAS = {
    "CreateVpc": ("VpcLimitExceeded", "The maximum number of VPCs has been reached."),
    "AllocateAddress": ("AddressLimitExceeded", "The maximum number of addresses has been reached."),
    "CreateInternetGateway": (
        "InternetGatewayLimitExceeded",
        "The maximum number of internet gateways has been reached.",
    ),
    "CreateNatGateway": ("NatGatewayLimitExceeded", "The maximum number of NAT Gateways has been reached."),
    "RunInstances": (
        "VcpuLimitExceeded",
        "You have requested more vCPU capacity than your current vCPU limit of 32 allows for the instance "
        "bucket that the specified instance type belongs to.",
    ),
}


@dataclass
class Rule:
    """Calls that match fail in one way. Patterns are those of a shell."""

    kind: str
    service: str = "*"
    action: str = "*"
    # How likely a matching call fails; the seed makes the order of luck the same each time.
    probability: float = 1.0
    seed: int = 0
    # How many calls fail at most; none: no end.
    count: int | None = None
    # How many matching calls are let through first.
    skip: int = 0
    # `slow`: how long the answer is held back.
    milliseconds: int = 1000
    # `reset`: whether the connection is closed before the call has an effect, or after it.
    when: str = "before"
    message: str | None = None
    hits: int = 0
    _random: random.Random = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown kind {self.kind!r}; there are {', '.join(KINDS)}")
        if self.when not in ("before", "after"):
            raise ValueError("`when` is `before` or `after`")
        self._random = random.Random(self.seed)

    @classmethod
    def parse(cls, value: dict[str, Any]) -> Rule:
        """Reads a rule; a field that is not one is an error."""
        known = {part.name for part in fields(cls) if part.init and part.name != "hits"}
        unknown = set(value) - known
        if unknown or "kind" not in value:
            raise ValueError(f"a rule has `kind` and {sorted(known - {'kind'})}, not {sorted(unknown)}")
        return cls(**value)

    def strikes(self, service: str, action: str) -> bool:
        """Whether a call fails; counts it if so."""
        if not (fnmatch.fnmatch(service, self.service) and fnmatch.fnmatch(action, self.action)):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        if (self.count is not None and self.hits >= self.count) or self._random.random() >= self.probability:
            return False
        self.hits += 1
        return True

    def listed(self) -> dict[str, Any]:
        """The rule and how often it struck."""
        value = asdict(self)
        value.pop("_random")
        return value


class Faults:
    """The rules that hold now."""

    def __init__(self) -> None:
        self.rules: list[Rule] = []

    def replace(self, rules: list[dict[str, Any]]) -> None:
        """Sets all rules at once; on an error, the old ones stay."""
        self.rules = [Rule.parse(rule) for rule in rules]

    def strike(self, call: Call) -> Rule | None:
        """The first rule that strikes a call."""
        # A node group without capacity fails later, by itself: `lacks_capacity` is asked for that.
        own = lambda rule: rule.kind == "capacity" and call.service == "eks"
        return next((rule for rule in self.rules if not own(rule) and rule.strikes(call.service, call.action)), None)

    def lacks_capacity(self, action: str) -> bool:
        """Whether the instances of a node group cannot be had."""
        rules = [rule for rule in self.rules if rule.kind == "capacity"]
        return any(rule.strikes("eks", action) for rule in rules)


def failure(rule: Rule, call: Call) -> tuple[int, str, str]:
    """Status, code and message of a fault that is an answer."""
    status, code, message = _failure(rule.kind, call)
    return status, code, rule.message or message


def _failure(kind: str, call: Call) -> tuple[int, str, str]:
    ec2, json = call.protocol == "ec2", call.protocol in ("json", "rest-json")
    if kind == "throttling":
        if ec2:
            return 503, "RequestLimitExceeded", "Request limit exceeded."
        return (429, "ThrottlingException", "Rate exceeded") if json else (400, "Throttling", "Rate exceeded")
    if kind == "5xx":
        if call.service == "eks":
            return 500, "ServerException", "Internal server error"
        return 500, "InternalError", "An internal error has occurred"
    if kind == "expired-token":
        if ec2:
            return 400, "RequestExpired", "Request has expired."
        code = "ExpiredTokenException" if json else "ExpiredToken"
        return 403, code, "The security token included in the request is expired"
    if kind == "quota":
        if ec2:
            code, message = EC2_QUOTAS.get(call.action, ("ResourceLimitExceeded", "You have reached a limit."))
            return 400, code, message
        if call.service == "eks":
            return 400, "ResourceLimitExceededException", "You have reached a service limit for this resource."
        return 409, "LimitExceeded", "Cannot exceed quota for this resource."
    kind_of_instance = call.params.get("InstanceType", "the requested instance type")
    return (
        500,
        "InsufficientInstanceCapacity",
        f"We currently do not have sufficient {kind_of_instance} capacity in the Availability Zone you requested. "
        "Our system will be working on provisioning additional capacity.",
    )
