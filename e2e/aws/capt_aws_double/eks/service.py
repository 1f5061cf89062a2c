"""The service as a whole: finds the operation of a request and answers it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator

from werkzeug.wrappers import Response

from .. import answers
from ..clock import Clock
from ..consistency import Consistency
from ..faults import Faults
from ..options import Options
from ..request import Call
from . import (
    access,
    addons,
    catalog,
    cluster_updates,
    clusters,
    fargate,
    identity_providers,
    model,
    nodegroups,
    pod_identity,
    tags,
    updates,
)
from .errors import EksError
from .state import Cluster, Data, Region

OPERATIONS: dict[str, Callable[..., Data]] = {
    "CreateCluster": clusters.create,
    "DescribeCluster": clusters.describe,
    "ListClusters": clusters.listed,
    "DeleteCluster": clusters.delete,
    "UpdateClusterVersion": cluster_updates.version,
    "UpdateClusterConfig": cluster_updates.config,
    "AssociateEncryptionConfig": cluster_updates.associate_encryption,
    "DescribeUpdate": updates.describe,
    "ListUpdates": updates.listed,
    "CreateNodegroup": nodegroups.create,
    "DescribeNodegroup": nodegroups.describe,
    "ListNodegroups": nodegroups.listed,
    "UpdateNodegroupConfig": nodegroups.update_config,
    "UpdateNodegroupVersion": nodegroups.update_version,
    "DeleteNodegroup": nodegroups.delete,
    "CreateFargateProfile": fargate.create,
    "DescribeFargateProfile": fargate.describe,
    "ListFargateProfiles": fargate.listed,
    "DeleteFargateProfile": fargate.delete,
    "CreateAddon": addons.create,
    "DescribeAddon": addons.describe,
    "ListAddons": addons.listed,
    "UpdateAddon": addons.update,
    "DeleteAddon": addons.delete,
    "DescribeAddonConfiguration": addons.describe_configuration,
    "DescribeAddonVersions": catalog.describe_addon_versions,
    "DescribeClusterVersions": catalog.describe_cluster_versions,
    "ListAccessPolicies": catalog.list_access_policies,
    "CreateAccessEntry": access.create,
    "DescribeAccessEntry": access.describe,
    "ListAccessEntries": access.listed,
    "UpdateAccessEntry": access.update,
    "DeleteAccessEntry": access.delete,
    "AssociateAccessPolicy": access.associate_policy,
    "ListAssociatedAccessPolicies": access.list_policies,
    "DisassociateAccessPolicy": access.disassociate_policy,
    "CreatePodIdentityAssociation": pod_identity.create,
    "DescribePodIdentityAssociation": pod_identity.describe,
    "ListPodIdentityAssociations": pod_identity.listed,
    "UpdatePodIdentityAssociation": pod_identity.update,
    "DeletePodIdentityAssociation": pod_identity.delete,
    "AssociateIdentityProviderConfig": identity_providers.associate,
    "DescribeIdentityProviderConfig": identity_providers.describe,
    "ListIdentityProviderConfigs": identity_providers.listed,
    "DisassociateIdentityProviderConfig": identity_providers.disassociate,
    "TagResource": tags.tag,
    "UntagResource": tags.untag,
    "ListTagsForResource": tags.listed,
}


class Eks:
    """EKS in all accounts and regions."""

    def __init__(self, options: Options, clock: Clock, faults: Faults, consistency: Consistency, ca: str) -> None:
        self._shared = options, clock, faults, consistency, ca
        self._regions: dict[tuple[str, str], Region] = {}

    def region(self, account: str, name: str) -> Region:
        """One account and region."""
        key = account, name
        if key not in self._regions:
            self._regions[key] = Region(account, name, *self._shared)
        return self._regions[key]

    def clusters(self) -> Iterator[tuple[Region, Cluster]]:
        """All clusters."""
        for region in self._regions.values():
            for cluster in region.clusters.values():
                yield region, cluster

    def reset(self) -> None:
        """Forgets all clusters."""
        self._regions.clear()

    def answer(self, call: Call, query: str) -> tuple[Response, str | None]:
        """Answers a request, and tells the code of its error."""
        handler = OPERATIONS.get(call.action)
        try:
            if handler is None:
                raise EksError("UnknownOperationException", 501, f"the double does not have {call.action}")
            region = self.region(call.account, call.region)
            params = model.read_params(call, query)
            # Only what is created can need to know who asks.
            arguments = (call,) if "call" in inspect.signature(handler).parameters else ()
            return answers.as_json(model.written(call.action, handler(region, params, *arguments))), None
        except EksError as error:
            body = {**error.fields, "message": error.message}
            return answers.as_json(body, error.status, {"x-amzn-ErrorType": error.code}), error.code
