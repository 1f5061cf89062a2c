"""Start options, and the figures that can be changed while the double runs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

# Every kind of change that takes time. Nothing takes any by default: tests that need time ask for it.
DURATIONS = {
    "cluster.create": 0.0,
    "cluster.update": 0.0,
    "cluster.delete": 0.0,
    "nodegroup.create": 0.0,
    "nodegroup.update": 0.0,
    "nodegroup.delete": 0.0,
    "fargate.create": 0.0,
    "fargate.delete": 0.0,
    "addon.create": 0.0,
    "addon.update": 0.0,
    "addon.delete": 0.0,
    "identity.create": 0.0,
    "identity.delete": 0.0,
    # From an instance's end until its autoscaling group starts another; below 0: never.
    "instance.replace": 0.0,
}

# About what AWS takes, in seconds.
REALISTIC = {
    "cluster.create": 540.0,
    "cluster.update": 480.0,
    "cluster.delete": 150.0,
    "nodegroup.create": 120.0,
    "nodegroup.update": 240.0,
    "nodegroup.delete": 240.0,
    "fargate.create": 90.0,
    "fargate.delete": 60.0,
    "addon.create": 30.0,
    "addon.update": 30.0,
    "addon.delete": 15.0,
    "identity.create": 600.0,
    "identity.delete": 300.0,
    "instance.replace": 90.0,
}


@dataclass
class User:
    """An IAM user whose access key has a known secret, so that its signatures can be checked."""

    name: str
    key: str
    secret: str

    @classmethod
    def parse(cls, text: str) -> User:
        """Reads NAME:KEY:SECRET; a secret may have colons of its own."""
        name, key, secret = text.split(":", 2)
        # moto takes nothing else for a key, and neither does AWS.
        if not re.fullmatch("[A-Z0-9]{20}", key):
            raise ValueError(f"{key} is no access key id: that is 20 capital letters and digits")
        return cls(name, key, secret)


@dataclass
class Options:
    """Behaviour of the double."""

    oldest_minor: int = 30
    newest_minor: int = 35
    endpoint: str | None = None
    ca: str | None = None
    admin_group: str = "system:masters"
    users: list[User] = field(default_factory=list)
    durations: dict[str, float] = field(default_factory=lambda: dict(DURATIONS))

    @property
    def versions(self) -> list[str]:
        """Supported versions of Kubernetes, the oldest first."""
        return [f"1.{minor}" for minor in range(self.oldest_minor, self.newest_minor + 1)]

    def set_durations(self, durations: dict[str, float]) -> None:
        """Changes some durations; an unknown kind is an error, as it would never have an effect."""
        unknown = set(durations) - set(DURATIONS)
        if unknown:
            raise ValueError(f"unknown durations {sorted(unknown)}; there are {sorted(DURATIONS)}")
        self.durations.update({kind: float(seconds) for kind, seconds in durations.items()})
