//! Names that other programs and existing manifests rely on: groups, labels, annotations, finalizers.

/// API group of networks, machines and workspaces.
pub const INFRASTRUCTURE_GROUP: &str = "infrastructure.cluster.x-k8s.io";
/// API group of Cluster API core.
pub const CORE_GROUP: &str = "cluster.x-k8s.io";
/// API group of control planes.
pub const CONTROL_PLANE_GROUP: &str = "controlplane.cluster.x-k8s.io";
/// The one served and stored version of every kind.
pub const VERSION: &str = "v1beta1";

/// Labels on CAPT's CRDs.
pub mod crd_labels {
    /// Tells Cluster API core which of our versions fulfil its v1beta2 contract.
    pub const CONTRACT: &str = "cluster.x-k8s.io/v1beta2";
    /// Makes `clusterctl move` take all objects of the kind along, though no Cluster owns them.
    pub const MOVE: &str = "clusterctl.cluster.x-k8s.io/move";
    /// Makes the kind appear in the Cluster API visualizer.
    pub const VISUALIZER: &str = "visualizer.cluster.x-k8s.io";
    /// Only on the CRD of Cluster that CAPT brings where Cluster API core is not installed.
    pub const INSTALLED_BY: &str = "infrastructure.cluster.x-k8s.io/installed-by";
    /// Value of that.
    pub const CAPT: &str = "capt";
}

/// Labels on objects.
pub mod labels {
    /// The cluster an object belongs to.
    pub const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
    /// The CaptMachineDeployment a set or machine belongs to.
    pub const DEPLOYMENT_NAME: &str = "infrastructure.cluster.x-k8s.io/deployment-name";
    /// The CaptMachineSet a machine belongs to.
    pub const SET_NAME: &str = "infrastructure.cluster.x-k8s.io/set-name";
    /// The NodeGroup a machine has joined.
    pub const NODE_GROUP_NAME: &str = "infrastructure.cluster.x-k8s.io/node-group-name";
    /// On a WorkspaceTemplateApply whose CAPTCluster is gone and wanted its VPC kept.
    pub const RETAINED: &str = "infrastructure.cluster.x-k8s.io/retained";
    /// Hash of the machine-relevant part of a set's template; keeps the sets of one deployment apart.
    pub const TEMPLATE_HASH: &str = "infrastructure.cluster.x-k8s.io/template-hash";
}

/// Field manager of `capt approve`, before the name under which the API knows its user.
pub const APPROVER: &str = "capt-approve/";

/// Annotations on objects.
pub mod annotations {
    /// Pauses reconciliation of the object that carries it, whatever its value.
    pub const PAUSED: &str = "cluster.x-k8s.io/paused";
    /// Something else manages this infrastructure: CAPT touches nothing.
    pub const MANAGED_BY: &str = "cluster.x-k8s.io/managed-by";
    /// The template that Cluster API cloned an object from: it is meant for a Machine, which takes it later.
    pub const CLONED_FROM_NAME: &str = "cluster.x-k8s.io/cloned-from-name";
    /// On a machine: its Node is not drained, whatever the value.
    pub const EXCLUDE_NODE_DRAINING: &str = "machine.cluster.x-k8s.io/exclude-node-draining";
    /// Puts a machine first in line when its set scales down.
    pub const DELETE_MACHINE: &str = "cluster.x-k8s.io/delete-machine";
    /// Region of a Cluster whose infrastructure names none.
    pub const REGION: &str = "cluster.x-k8s.io/region";
    /// On a CAPTControlPlane or its WorkspaceTemplate: how the kubeconfig logs in. `eks` for tokens that CAPT makes,
    /// `eks-exec` for those of the AWS CLI.
    pub const CLUSTER_AUTH: &str = "infrastructure.cluster.x-k8s.io/cluster-auth";
    /// Revision of a CaptMachineDeployment that a set stands for.
    pub const REVISION: &str = "infrastructure.cluster.x-k8s.io/revision";
    /// On a WorkspaceTemplateApply: id of the plan that a person approves. Written by `capt approve`, removed when it is used.
    pub const APPROVE: &str = "infrastructure.cluster.x-k8s.io/approve";
    /// On a WorkspaceTemplateApply: the plan whose approval was used last, and who gave it, as `ID by WHO`. Written by CAPT.
    pub const APPROVED: &str = "infrastructure.cluster.x-k8s.io/approved";
    /// On a WorkspaceTemplateApply: runs again now what failed or was cancelled, whatever its value. Written by
    /// `capt retry`, removed when the run is ordered.
    pub const RETRY: &str = "infrastructure.cluster.x-k8s.io/retry";
    /// On a WorkspaceTemplateApply: interrupts the run that is under way, whatever its value. Written by
    /// `capt cancel`, removed when no run is left.
    pub const CANCEL: &str = "infrastructure.cluster.x-k8s.io/cancel";
    /// On a WorkspaceTemplateApply: name of the Secret with a Terraform state to take over before the first run.
    /// Written by `capt import-state`, removed when it is done.
    pub const IMPORT_STATE: &str = "infrastructure.cluster.x-k8s.io/import-state";
    /// On a WorkspaceTemplateApply: restores a kept copy of its state: the serial of the copy, or anything else for the
    /// newest. Written by `capt state restore`, removed when it is done.
    pub const RESTORE_STATE: &str = "infrastructure.cluster.x-k8s.io/restore-state";
    /// On a WorkspaceTemplateApply: variables, separated by commas, that the module need not declare.
    pub const OPTIONAL_VARIABLES: &str = "infrastructure.cluster.x-k8s.io/optional-variables";
    /// On a WorkspaceTemplateApply: variables, separated by commas, that its owner passes without having been told to. Values of the
    /// template win over these.
    pub const DEFAULT_VARIABLES: &str = "infrastructure.cluster.x-k8s.io/default-variables";
    /// On a WorkspaceTemplateApply: what its template last said about deletion, where that is Orphan.
    pub const DELETION_POLICY: &str = "infrastructure.cluster.x-k8s.io/deletion-policy";
    /// On a WorkspaceTemplateApply: namespace and name of its connection Secret, where that is in another namespace.
    pub const CONNECTION_SECRET: &str = "infrastructure.cluster.x-k8s.io/connection-secret";
    /// On a WorkspaceTemplateApply that is being deleted: its own uid, once nothing of its infrastructure is left and before
    /// CAPT forgets its state. Without it, a controller that never saw the end could not tell it from a loss.
    pub const DESTROYED: &str = "infrastructure.cluster.x-k8s.io/destroyed";
    /// On a WorkspaceTemplateApply whose state is kept in the data folder alone: its own uid and that folder's id, from before its first
    /// apply begins. A controller with another folder does not build it a second time.
    pub const FIRST_APPLY: &str = "infrastructure.cluster.x-k8s.io/first-apply";
    /// On a Workspace of Crossplane: namespace and name of the WorkspaceTemplateApply that has its state now. Written by `capt migrate`,
    /// which leaves such a Workspace alone.
    pub const HANDED_OVER: &str = "infrastructure.cluster.x-k8s.io/handed-over";
    /// On a Secret: its keys, separated by commas, whose values may be shown. CAPT writes it on connection Secrets, for
    /// outputs that are not sensitive.
    pub const NOT_SECRET: &str = "infrastructure.cluster.x-k8s.io/not-secret";
    /// On the Lease of the controllers: which references across namespaces they follow, open or granted. `capt doctor` tells.
    pub const CROSS_NAMESPACE: &str = "infrastructure.cluster.x-k8s.io/cross-namespace";
    /// Replicas of the CaptMachineDeployment when it last scaled a set; a difference means that it was scaled since.
    pub const DESIRED_REPLICAS: &str = "infrastructure.cluster.x-k8s.io/desired-replicas";
    /// Keeps a set from creating machines, whatever its value: old sets under OnDelete carry it.
    pub const DISABLE_CREATE: &str = "infrastructure.cluster.x-k8s.io/disable-create";
    /// On a set, whatever its value: machines that are not available go before those that are marked for deletion. Old sets of a rollout
    /// carry it: all their machines go, and the available ones are needed until then.
    pub const UNAVAILABLE_FIRST: &str = "infrastructure.cluster.x-k8s.io/unavailable-first";
    /// Hash of what a machine takes from its template without being replaced; tells whether it is up to date.
    pub const IN_PLACE_HASH: &str = "infrastructure.cluster.x-k8s.io/in-place-hash";
    /// On a CaptMachineDeployment, with the value "true": a rollout that misses its deadline is undone.
    pub const UNDO_ON_FAILURE: &str = "infrastructure.cluster.x-k8s.io/undo-on-failure";
    /// On a CaptMachineDeployment: hash of the template that an undo by itself put there. That one is not undone by itself.
    pub const UNDONE_TO: &str = "infrastructure.cluster.x-k8s.io/undone-to";
    /// Keeps `clusterctl move` away while a run is under way.
    pub const BLOCK_MOVE: &str = "clusterctl.cluster.x-k8s.io/block-move";
}

/// Finalizers, one per kind that has something to clean up.
pub mod finalizers {
    /// Every one of them has it in its name, as those of Cluster API core have.
    pub const DOMAIN: &str = "cluster.x-k8s.io";
    /// On Cluster: that of Cluster API core, whose part CAPT plays.
    pub const CORE_CLUSTER: &str = "cluster.cluster.x-k8s.io";
    /// On CAPTCluster.
    pub const CLUSTER: &str = "infrastructure.cluster.x-k8s.io/captcluster";
    /// On CAPTControlPlane.
    pub const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io/captcontrolplane";
    /// On WorkspaceTemplate: held while a WorkspaceTemplateApply uses it.
    pub const WORKSPACE_TEMPLATE: &str = "workspacetemplate.v2.infrastructure.cluster.x-k8s.io";
    /// On WorkspaceTemplateApply: held until its infrastructure is destroyed or retained.
    pub const WORKSPACE_TEMPLATE_APPLY: &str = "infrastructure.cluster.x-k8s.io/finalizer";
    /// On CaptMachine.
    pub const MACHINE: &str = "captmachine.infrastructure.cluster.x-k8s.io";
    /// On CaptMachineSet.
    pub const MACHINE_SET: &str = "captmachineset.infrastructure.cluster.x-k8s.io";
    /// On CaptMachineDeployment.
    pub const MACHINE_DEPLOYMENT: &str = "captmachinedeployment.infrastructure.cluster.x-k8s.io";
    /// On NodeGroup.
    pub const NODE_GROUP: &str = "nodegroup.infrastructure.cluster.x-k8s.io";
}
