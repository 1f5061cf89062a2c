"""Changes of clusters: version, endpoint, logging, authentication, policies."""

from __future__ import annotations

from collections.abc import Callable

from . import catalog, network, updates
from .clusters import logging
from .errors import invalid_parameter
from .state import Cluster, Data, Region

MODES = ["CONFIG_MAP", "API_AND_CONFIG_MAP", "API"]


def version(region: Region, params: Data) -> Data:
    """UpdateClusterVersion: up by one minor version, and not away from the nodes."""
    cluster = region.active_cluster(params["name"])
    updates.refuse_second(cluster, "VersionUpdate")
    current, wanted = cluster.data["version"], params["version"]
    if wanted not in region.options.versions:
        raise invalid_parameter("unsupported Kubernetes version", clusterName=cluster.name)
    if catalog.minor(wanted) != catalog.minor(current) + 1:
        raise invalid_parameter(
            f"Unsupported Kubernetes minor version update from {current} to {wanted}", clusterName=cluster.name
        )
    # A kubelet may be three minor versions behind the API server.
    behind = [
        name
        for name, group in cluster.nodegroups.items()
        if catalog.minor(group.data["version"]) < catalog.minor(wanted) - 3
    ]
    if behind:
        raise invalid_parameter(
            f"Nodegroups {', '.join(sorted(behind))} must be updated to match cluster version {current} before "
            "updating cluster version",
            clusterName=cluster.name,
            nodegroupName=",".join(sorted(behind)),
        )
    said = {"Version": wanted, "PlatformVersion": cluster.data["platformVersion"]}
    apply = lambda: cluster.data.update(version=wanted)
    return updates.start(region, cluster, cluster, "VersionUpdate", said, "cluster.update", apply)


def config(region: Region, params: Data) -> Data:
    """UpdateClusterConfig: one kind of change at a time."""
    cluster = region.active_cluster(params["name"])
    kinds: dict[str, Callable[[Region, Cluster, Data], tuple[str, Data, Data]]] = {
        "resourcesVpcConfig": _vpc,
        "logging": _logging,
        "accessConfig": _access,
        "upgradePolicy": _plain("UpgradePolicyUpdate", "UpgradePolicy", "upgradePolicy"),
        "zonalShiftConfig": _plain("ZonalShiftConfigUpdate", "ZonalShiftConfig", "zonalShiftConfig"),
        "deletionProtection": _plain("DeletionProtectionUpdate", "DeletionProtection", "deletionProtection"),
        "computeConfig": _auto_mode,
        "remoteNetworkConfig": _plain("RemoteNetworkConfigUpdate", "RemoteNetworkConfig", "remoteNetworkConfig"),
    }
    asked = [kind for kind in kinds if params.get(kind) is not None]
    if not asked:
        raise invalid_parameter("The type for cluster update was not provided.", clusterName=cluster.name)
    if len(asked) > 1:
        raise invalid_parameter("Only one type of update can be allowed.", clusterName=cluster.name)
    kind, said, change = kinds[asked[0]](region, cluster, params)
    updates.refuse_second(cluster, kind)
    apply = lambda: cluster.data.update(change)
    return updates.start(region, cluster, cluster, kind, said, "cluster.update", apply)


def _vpc(region: Region, cluster: Cluster, params: Data) -> tuple[str, Data, Data]:
    wanted, current = params["resourcesVpcConfig"], cluster.data["resourcesVpcConfig"]
    if "subnetIds" in wanted or "securityGroupIds" in wanted:
        for id in wanted.get("subnetIds", []):
            network.subnet(region, id)
        said = {"Subnets": wanted.get("subnetIds"), "SecurityGroups": wanted.get("securityGroupIds")}
        return "VpcConfigUpdate", said, {"resourcesVpcConfig": {**current, **wanted}}
    changed = {**current, **wanted}
    if changed == current:
        raise invalid_parameter(
            "Cluster is already at the desired configuration with endpointPrivateAccess: "
            f"{str(current['endpointPrivateAccess']).lower()} , endpointPublicAccess: "
            f"{str(current['endpointPublicAccess']).lower()}, and Public Endpoint Restrictions: "
            f"[{', '.join(current['publicAccessCidrs'])}]",
            clusterName=cluster.name,
        )
    said = {
        "EndpointPublicAccess": wanted.get("endpointPublicAccess"),
        "EndpointPrivateAccess": wanted.get("endpointPrivateAccess"),
        "PublicAccessCidrs": wanted.get("publicAccessCidrs"),
    }
    return "EndpointAccessUpdate", said, {"resourcesVpcConfig": changed}


def _logging(region: Region, cluster: Cluster, params: Data) -> tuple[str, Data, Data]:
    changed = logging(params["logging"], cluster.data["logging"])
    if changed == cluster.data["logging"]:
        raise invalid_parameter("No changes needed for the logging config provided", clusterName=cluster.name)
    return "LoggingUpdate", {"ClusterLogging": params["logging"]}, {"logging": changed}


def _access(region: Region, cluster: Cluster, params: Data) -> tuple[str, Data, Data]:
    wanted = params["accessConfig"].get("authenticationMode", cluster.mode)
    # One step towards API at a time, and never back.
    if MODES.index(wanted) != MODES.index(cluster.mode) + 1:
        raise invalid_parameter(
            f"Unsupported authentication mode update from {cluster.mode} to {wanted}", clusterName=cluster.name
        )
    return "AccessConfigUpdate", {"AuthenticationMode": wanted}, {"accessConfig": {"authenticationMode": wanted}}


def _auto_mode(region: Region, cluster: Cluster, params: Data) -> tuple[str, Data, Data]:
    change = {key: params[key] for key in ("computeConfig", "storageConfig") if key in params}
    said = {"ComputeConfig": params["computeConfig"], "StorageConfig": params.get("storageConfig")}
    if "kubernetesNetworkConfig" in params:
        merged = {**cluster.data["kubernetesNetworkConfig"], **params["kubernetesNetworkConfig"]}
        change["kubernetesNetworkConfig"] = merged
    return "AutoModeUpdate", said, change


def _plain(kind: str, said: str, key: str) -> Callable[[Region, Cluster, Data], tuple[str, Data, Data]]:
    """A change that replaces one member."""
    return lambda region, cluster, params: (kind, {said: params[key]}, {key: params[key]})


def associate_encryption(region: Region, params: Data) -> Data:
    """AssociateEncryptionConfig: once, and for good."""
    cluster = region.active_cluster(params["clusterName"])
    if cluster.data.get("encryptionConfig"):
        raise invalid_parameter("Encryption is already enabled on this cluster", clusterName=cluster.name)
    updates.refuse_second(cluster, "AssociateEncryptionConfig")
    said = {"EncryptionConfig": params["encryptionConfig"]}
    apply = lambda: cluster.data.update(encryptionConfig=params["encryptionConfig"])
    return updates.start(region, cluster, cluster, "AssociateEncryptionConfig", said, "cluster.update", apply)
