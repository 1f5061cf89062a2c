"""A record of every call, from which the smallest sufficient IAM policy can be made."""

from __future__ import annotations

import datetime
import re
from dataclasses import asdict, dataclass, field

from .request import Call

# A role that is handed to a service needs iam:PassRole besides the action itself.
PASSES_ROLE = {
    "eks:CreateCluster",
    "eks:CreateNodegroup",
    "eks:CreateFargateProfile",
    "eks:CreateAddon",
    "eks:UpdateAddon",
    "eks:CreatePodIdentityAssociation",
    "eks:UpdatePodIdentityAssociation",
    "iam:AddRoleToInstanceProfile",
    "ec2:RunInstances",
    "ec2:AssociateIamInstanceProfile",
}
ROLE = re.compile(r"arn:[\w-]+:iam::\d{12}:role/")


@dataclass
class Record:
    """One call."""

    service: str
    action: str
    principal: str
    region: str
    time: str
    error: str | None
    status: int
    # Further permissions that AWS asks for in the same call.
    also: list[str] = field(default_factory=list)


class Calls:
    """All calls since the start or the last reset."""

    def __init__(self) -> None:
        self._records: list[Record] = []

    def add(self, call: Call, time: datetime.datetime, status: int, error: str | None) -> None:
        """Records a call and how it ended."""
        name = f"{call.service}:{call.action}"
        also = []
        values = [*call.params.values(), str(call.body)]
        hands_role = any(ROLE.search(value) for value in values) or "IamInstanceProfile.Name" in call.params
        if name in PASSES_ROLE and (hands_role or name == "iam:AddRoleToInstanceProfile"):
            also.append("iam:PassRole")
        if call.body.get("tags") and call.service == "eks" and call.action.startswith("Create"):
            also.append("eks:TagResource")
        if call.service == "ec2" and any(key.startswith("TagSpecification") for key in call.params):
            also.append("ec2:CreateTags")
        record = Record(call.service, call.action, call.principal, call.region, time.isoformat(), error, status, also)
        self._records.append(record)

    def clear(self) -> None:
        """Forgets all."""
        self._records.clear()

    def listed(self) -> list[dict[str, object]]:
        """All, the oldest first."""
        return [asdict(record) for record in self._records]

    def permissions(self) -> list[str]:
        """Names of all permissions that the calls needed, sorted."""
        names = {f"{record.service}:{record.action}" for record in self._records}
        names.update(name for record in self._records for name in record.also)
        return sorted(names)
