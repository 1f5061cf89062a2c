//! Nodes, which this server keeps as plain objects.

use super::Package::{Core, Meta, Resource};
use crate::builtin::schema::{
    Definition,
    DefinitionKind::{Kind, Part},
    Type::{Atomic, Bool, Int32, Int64, Keyed, Map, Of, Set, Text},
    define, field,
};

// One line per field, as in a reference.
#[rustfmt::skip]
pub(super) const TABLE: &[Definition] = &[
    define("Node", Kind, "A machine that runs workloads.", &[
        field("spec", Of(Core, "NodeSpec"), "What is wanted."),
        field("status", Of(Core, "NodeStatus"), "What was observed."),
    ]),
    define("NodeSpec", Part, "What is wanted of a node.", &[
        field("configSource", Of(Core, "NodeConfigSource"), "No longer used.").pointer(),
        field("externalID", Text, "No longer used."),
        field("podCIDR", Text, "Address range of the pods on the node."),
        field("podCIDRs", Set(&Text), "Address ranges of the pods on the node, at most one for each of IPv4 and IPv6.").merged(),
        field("providerID", Text, "Identity of the machine at its provider: <provider>://<id>."),
        field("taints", Atomic(&Of(Core, "Taint")), "What keeps pods away that do not tolerate it."),
        field("unschedulable", Bool, "Whether new pods stay away."),
    ]),
    define("Taint", Part, "Keeps pods away that do not tolerate it.", &[
        field("effect", Text, "What happens to pods that do not tolerate it.").required().one_of(&["NoExecute", "NoSchedule", "PreferNoSchedule"]),
        field("key", Text, "Its name.").required(),
        field("timeAdded", Of(Meta, "Time"), "When it was added.").pointer(),
        field("value", Text, "Its value."),
    ]),
    define("NodeConfigSource", Part, "No longer used.", &[field("configMap", Of(Core, "ConfigMapNodeConfigSource"), "The ConfigMap.").pointer()]),
    define("ConfigMapNodeConfigSource", Part, "No longer used.", &[
        field("kubeletConfigKey", Text, "Key in the ConfigMap.").required(),
        field("name", Text, "Name of the ConfigMap.").required(),
        field("namespace", Text, "Namespace of the ConfigMap.").required(),
        field("resourceVersion", Text, "Revision of the ConfigMap."),
        field("uid", Text, "Identity of the ConfigMap."),
    ]),
    define("NodeStatus", Part, "What was observed of a node.", &[
        field("addresses", Keyed(&Of(Core, "NodeAddress"), "type"), "Addresses by which it is reached.").merged(),
        field("allocatable", Map(&Of(Resource, "Quantity")), "Resources that pods may use."),
        field("capacity", Map(&Of(Resource, "Quantity")), "Resources it has."),
        field("conditions", Keyed(&Of(Core, "NodeCondition"), "type"), "Observations about it, among them Ready.").merged(),
        field("config", Of(Core, "NodeConfigStatus"), "No longer used.").pointer(),
        field("daemonEndpoints", Of(Core, "NodeDaemonEndpoints"), "Ports of the daemons on it."),
        field("declaredFeatures", Atomic(&Text), "Features it declares, sorted."),
        field("features", Of(Core, "NodeFeatures"), "Features of its container runtime.").pointer(),
        field("images", Atomic(&Of(Core, "ContainerImage")), "Images it has."),
        field("nodeInfo", Of(Core, "NodeSystemInfo"), "Its software."),
        field("phase", Text, "No longer used.").one_of(&["Pending", "Running", "Terminated"]),
        field("runtimeHandlers", Atomic(&Of(Core, "NodeRuntimeHandler")), "Handlers of its container runtime."),
        field("volumesAttached", Atomic(&Of(Core, "AttachedVolume")), "Volumes that are attached."),
        field("volumesInUse", Atomic(&Text), "Volumes that are mounted."),
    ]),
    define("NodeAddress", Part, "An address of a node.", &[
        field("address", Text, "The address.").required(),
        field("type", Text, "Hostname, InternalIP, ExternalIP, InternalDNS or ExternalDNS.").required(),
    ]),
    define("NodeCondition", Part, "One observation about a node.", &[
        field("lastHeartbeatTime", Of(Meta, "Time"), "When it was last reported."),
        field("lastTransitionTime", Of(Meta, "Time"), "When the status last changed."),
        field("message", Text, "Details for people."),
        field("reason", Text, "Why, in one word."),
        field("status", Text, "True, False or Unknown.").required(),
        field("type", Text, "What the condition is about.").required(),
    ]),
    define("NodeConfigStatus", Part, "No longer used.", &[
        field("active", Of(Core, "NodeConfigSource"), "The configuration in use.").pointer(),
        field("assigned", Of(Core, "NodeConfigSource"), "The configuration to be used.").pointer(),
        field("error", Text, "What is wrong with it."),
        field("lastKnownGood", Of(Core, "NodeConfigSource"), "The configuration to fall back to.").pointer(),
    ]),
    define("NodeDaemonEndpoints", Part, "Ports of the daemons on a node.", &[
        field("kubeletEndpoint", Of(Core, "DaemonEndpoint"), "Where the kubelet listens."),
    ]),
    define("DaemonEndpoint", Part, "A port of a daemon.", &[field("Port", Int32, "The port.").required()]),
    define("NodeFeatures", Part, "Features of a container runtime.", &[
        field("supplementalGroupsPolicy", Bool, "Whether SupplementalGroupsPolicy and ContainerUser are supported.").pointer(),
    ]),
    define("ContainerImage", Part, "An image on a node.", &[
        field("names", Atomic(&Text), "Names the image is known by.").always(),
        field("sizeBytes", Int64, "Size in bytes."),
    ]),
    define("NodeSystemInfo", Part, "Software and identity of a node.", &[
        field("architecture", Text, "Processor architecture.").required(),
        field("bootID", Text, "Identity of the current boot.").required(),
        field("containerRuntimeVersion", Text, "Container runtime and its version, such as containerd://2.1.0.").required(),
        field("kernelVersion", Text, "Version of the kernel.").required(),
        field("kubeProxyVersion", Text, "No longer used.").required(),
        field("kubeletVersion", Text, "Version of the kubelet.").required(),
        field("machineID", Text, "Identity of the machine, as in /etc/machine-id.").required(),
        field("operatingSystem", Text, "Operating system.").required(),
        field("osImage", Text, "Operating system with its version, for people.").required(),
        field("swap", Of(Core, "NodeSwapStatus"), "Its swap space.").pointer(),
        field("systemUUID", Text, "Identity of the hardware.").required(),
    ]),
    define("NodeSwapStatus", Part, "Swap space of a node.", &[field("capacity", Int64, "Size in bytes.").pointer()]),
    define("NodeRuntimeHandler", Part, "A handler of a container runtime.", &[
        field("features", Of(Core, "NodeRuntimeHandlerFeatures"), "What it supports.").pointer(),
        field("name", Text, "Its name; empty for the default handler.").always(),
    ]),
    define("NodeRuntimeHandlerFeatures", Part, "What a runtime handler supports.", &[
        field("recursiveReadOnlyMounts", Bool, "Whether mounts can be read-only all the way down.").pointer(),
        field("userNamespaces", Bool, "Whether user namespaces are supported.").pointer(),
    ]),
    define("AttachedVolume", Part, "A volume attached to a node.", &[
        field("devicePath", Text, "Path of the device.").required(),
        field("name", Text, "Name of the volume.").required(),
    ]),
];
