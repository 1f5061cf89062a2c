//! Condition types and reasons: the constants that CAPT's status, events and metrics use.
//!
//! A type names what is true or not, a reason says why. Both are API: tools match on them, so they
//! never change their meaning.

/// Condition types.
pub mod types {
    /// The object is what its spec says, and usable. On every kind.
    pub const READY: &str = "Ready";
    /// Reconciliation is switched off for this object.
    pub const PAUSED: &str = "Paused";
    /// The object is being deleted; the message names what it waits for.
    pub const DELETING: &str = "Deleting";
    /// Nothing happens until a person changes something.
    pub const STALLED: &str = "Stalled";

    /// The workspace's inputs were resolved and handed to Terraform.
    pub const SYNCED: &str = "Synced";
    /// A plan exists for the current inputs.
    pub const PLANNED: &str = "Planned";
    /// The current inputs are applied.
    pub const APPLIED: &str = "Applied";
    /// The infrastructure differs from what was last applied.
    pub const DRIFTED: &str = "Drifted";
    /// The connection Secret that the workspace is asked to write holds its outputs.
    pub const CONNECTION_SECRET_READY: &str = "ConnectionSecretReady";

    /// The cluster's network is ready.
    pub const VPC_READY: &str = "VPCReady";
    /// The cluster's network is being built.
    pub const VPC_CREATING: &str = "VPCCreating";
    /// The cluster's network could not be built.
    pub const VPC_FAILED: &str = "VPCFailed";
    /// The owning Cluster is not there yet.
    pub const WAITING_FOR_CLUSTER: &str = "WaitingForCluster";

    /// The machine's Node has no pods left. Only on machines that are being deleted.
    pub const DRAINED: &str = "Drained";
    /// Other sets select the machines of this one, too.
    pub const SELECTOR_OVERLAPS: &str = "SelectorOverlaps";

    /// The control plane is applied, with its Secrets; on deployments: enough machines have been ready for long
    /// enough.
    pub const AVAILABLE: &str = "Available";
    /// The control plane was applied at least once, with its Secrets.
    pub const INITIALIZED: &str = "Initialized";
    /// The control plane's API said that it is ready when it was asked; Unknown where it cannot be asked from here.
    pub const REMOTE_CONNECTION_PROBE: &str = "RemoteConnectionProbe";
    /// The control plane is being built.
    pub const CREATING: &str = "Creating";
    /// The control plane could not be built.
    pub const FAILED: &str = "Failed";
    /// The CA and kubeconfig Secrets of a control plane are there and valid.
    pub const SECRETS_READY: &str = "SecretsReady";

    /// A rollout moves forward, or is done.
    pub const PROGRESSING: &str = "Progressing";
    /// Machines of an old revision are still there; on a control plane: a change is on its way to it.
    pub const ROLLING_OUT: &str = "RollingOut";
    /// Fewer machines than wanted.
    pub const SCALING_UP: &str = "ScalingUp";
    /// More machines than wanted.
    pub const SCALING_DOWN: &str = "ScalingDown";
    /// Every machine is ready.
    pub const MACHINES_READY: &str = "MachinesReady";
    /// Every machine is of the current revision.
    pub const MACHINES_UP_TO_DATE: &str = "MachinesUpToDate";

    /// On a Cluster: what its infrastructure says of itself.
    pub const INFRASTRUCTURE_READY: &str = "InfrastructureReady";
    /// On a Cluster: its control plane was complete at least once.
    pub const CONTROL_PLANE_INITIALIZED: &str = "ControlPlaneInitialized";
    /// On a Cluster: what its control plane says of itself.
    pub const CONTROL_PLANE_AVAILABLE: &str = "ControlPlaneAvailable";
    /// On a Cluster: what the deployments of its machines say of themselves.
    pub const WORKERS_AVAILABLE: &str = "WorkersAvailable";
}

/// Condition reasons.
pub mod reasons {
    /// The object is as its spec says.
    pub const READY: &str = "Ready";
    /// Work is under way.
    pub const CREATING: &str = "Creating";
    /// The work failed; the message has the error.
    pub const FAILED: &str = "Failed";
    /// Paused by a person.
    pub const PAUSED: &str = "Paused";

    /// The run waits for its turn.
    pub const QUEUED: &str = "Queued";
    /// A run makes a plan.
    pub const PLANNING: &str = "Planning";
    /// A run changes the infrastructure.
    pub const APPLYING: &str = "Applying";
    /// A run looks for drift.
    pub const REFRESHING: &str = "Refreshing";
    /// A run destroys the infrastructure.
    pub const DESTROYING: &str = "Destroying";
    /// A plan destroys more than `maxDestroy` allows, and waits for a person's approval.
    pub const PLAN_TOO_DESTRUCTIVE: &str = "PlanTooDestructive";
    /// Inputs are given that the module does not declare.
    pub const UNDECLARED_VARIABLES: &str = "UndeclaredVariables";
    /// Values of the template name `${key}`s that nothing gives.
    pub const UNKNOWN_KEYS: &str = "UnknownKeys";
    /// The template gives variables values of its own where the owner passes others by default.
    pub const TEMPLATE_VALUES_KEPT: &str = "TemplateValuesKept";
    /// Workspaces wait for each other.
    pub const DEPENDENCY_CYCLE: &str = "DependencyCycle";
    /// The WorkspaceProviderConfig does not exist.
    pub const PROVIDER_CONFIG_NOT_FOUND: &str = "ProviderConfigNotFound";
    /// A ConfigMap or a key of it does not exist.
    pub const CONFIG_MAP_NOT_FOUND: &str = "ConfigMapNotFound";
    /// A Secret or a key of it does not exist.
    pub const SECRET_NOT_FOUND: &str = "SecretNotFound";
    /// An output that another workspace should have is not there.
    pub const OUTPUT_NOT_FOUND: &str = "OutputNotFound";
    /// A reference into another namespace has no ReferenceGrant there; the message has the one to write.
    pub const REFERENCE_NOT_GRANTED: &str = "ReferenceNotGranted";
    /// The object's spec is invalid.
    pub const INVALID: &str = "Invalid";
    /// Another workspace keeps its state in the same place.
    pub const BACKEND_IN_USE: &str = "BackendInUse";
    /// The state to import is another workspace's.
    pub const STATE_REFUSED: &str = "StateRefused";
    /// The infrastructure is as it was applied.
    pub const IN_STEP: &str = "InStep";
    /// The infrastructure differs from what was last applied.
    pub const DRIFT_FOUND: &str = "DriftFound";
    /// Users of the object are still there.
    pub const IN_USE: &str = "InUse";

    /// A Secret that was asked to be waited for is missing.
    pub const WAITING_FOR_SECRETS: &str = "WaitingForSecrets";
    /// A workspace that was asked to be waited for is not ready.
    pub const WAITING_FOR_WORKSPACE: &str = "WaitingForWorkspace";
    /// The NodeGroup that a machine joins is not ready.
    pub const WAITING_FOR_NODE_GROUP: &str = "WaitingForNodeGroup";
    /// The Cluster API Machine that a machine is meant for has not taken it yet, or cannot be read.
    pub const WAITING_FOR_MACHINE: &str = "WaitingForMachine";
    /// The infrastructure of the machine's Cluster is not provisioned.
    pub const WAITING_FOR_CLUSTER_INFRASTRUCTURE: &str = "WaitingForClusterInfrastructure";
    /// The bootstrap provider has not given the data that the machine starts with.
    pub const WAITING_FOR_BOOTSTRAP_DATA: &str = "WaitingForBootstrapData";
    /// Pods are being moved away from the machine's Node.
    pub const DRAINING: &str = "Draining";
    /// The machine's Node is empty, or there is none.
    pub const DRAINED: &str = "Drained";
    /// The machine's Node was not drained; the message says why.
    pub const NOT_DRAINED: &str = "NotDrained";
    /// The machine's Node was not empty in time.
    pub const DRAIN_TIMEOUT: &str = "DrainTimeout";
    /// Another set selects the same machines.
    pub const SELECTOR_OVERLAPS: &str = "SelectorOverlaps";
    /// An object with the required name is controlled by another object.
    pub const NAME_TAKEN: &str = "NameTaken";
    /// A change is on its way to what is in use.
    pub const UPDATING: &str = "Updating";
    /// The plan waits for a person's approval.
    pub const WAITING_FOR_APPROVAL: &str = "WaitingForApproval";
    /// The WorkspaceTemplate does not exist.
    pub const WORKSPACE_TEMPLATE_NOT_FOUND: &str = "WorkspaceTemplateNotFound";
    /// The workspace's run failed.
    pub const WORKSPACE_ERROR: &str = "WorkspaceError";
    /// The workspace is applied.
    pub const WORKSPACE_READY: &str = "WorkspaceReady";
    /// A Secret could not be read or written.
    pub const SECRET_ERROR: &str = "SecretError";

    /// The VPC of the spec is used as it is.
    pub const EXISTING_VPC_USED: &str = "ExistingVPCUsed";
    /// The VPC is built.
    pub const VPC_CREATED: &str = "VPCCreated";
    /// The VPC is being built.
    pub const VPC_CREATING: &str = "VPCCreating";
    /// The VPC could not be built.
    pub const VPC_CREATION_FAILED: &str = "VPCCreationFailed";
    /// The spec's network is invalid.
    pub const INVALID_VPC_CONFIG: &str = "InvalidVPCConfig";
    /// No Cluster has claimed the object yet.
    pub const WAITING_FOR_CLUSTER: &str = "WaitingForCluster";
    /// The owning Cluster is being deleted: nothing new is built.
    pub const CLUSTER_DELETING: &str = "ClusterDeleting";
    /// The owning Cluster does not exist.
    pub const CLUSTER_NOT_FOUND: &str = "ClusterNotFound";

    /// The control plane waits for its network.
    pub const WAITING_FOR_VPC: &str = "WaitingForVPC";
    /// The network was not ready in time.
    pub const VPC_READY_TIMEOUT: &str = "VPCReadyTimeout";
    /// The control plane was not ready in time.
    pub const CONTROL_PLANE_TIMEOUT: &str = "ControlPlaneTimeout";
    /// The Secrets of the control plane were not there in time.
    pub const SECRET_TIMEOUT: &str = "SecretTimeout";
    /// No kubeconfig could be made for the cluster.
    pub const KUBECONFIG_GENERATION_FAILED: &str = "KubeconfigGenerationFailed";
    /// The endpoint could not be handed to the Cluster.
    pub const ENDPOINT_UPDATE_FAILED: &str = "EndpointUpdateFailed";

    /// The rollout made no progress within its deadline.
    pub const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
    /// The rollout moves forward.
    pub const SET_UPDATED: &str = "CaptMachineSetUpdated";
    /// OnDelete: only machines that users delete are replaced.
    pub const AWAITING_DELETION: &str = "AwaitingDeletion";
    /// Enough machines are available.
    pub const MINIMUM_AVAILABLE: &str = "MinimumReplicasAvailable";
    /// Fewer machines are available than the strategy allows.
    pub const MINIMUM_UNAVAILABLE: &str = "MinimumReplicasUnavailable";
    /// The operation that the condition reports is in progress.
    pub const IN_PROGRESS: &str = "InProgress";
    /// The operation that the condition reports is not in progress.
    pub const NOT_IN_PROGRESS: &str = "NotInProgress";
    /// Machines are missing or not ready.
    pub const MACHINES_NOT_READY: &str = "MachinesNotReady";
    /// Machines are not what the template says.
    pub const MACHINES_NOT_UP_TO_DATE: &str = "MachinesNotUpToDate";
    /// The object is being deleted.
    pub const DELETING: &str = "Deleting";
    /// The object is being deleted, and what it owns is left behind.
    pub const ORPHANING: &str = "Orphaning";
    /// The rollout is complete.
    pub const NEW_SET_AVAILABLE: &str = "NewCaptMachineSetAvailable";

    /// The API said that it is ready.
    pub const PROBE_SUCCEEDED: &str = "ProbeSucceeded";
    /// The API did not report that it is ready, or did not answer.
    pub const PROBE_FAILED: &str = "ProbeFailed";
    /// The API is reached from inside its network alone.
    pub const ENDPOINT_PRIVATE: &str = "EndpointPrivate";
    /// The name of the API's address does not resolve here.
    pub const ADDRESS_NOT_RESOLVED: &str = "AddressNotResolved";
    /// The API has not been probed.
    pub const NOT_PROBED: &str = "NotProbed";

    // Those of a Cluster are Cluster API's.
    /// Readiness is false or unknown.
    pub const NOT_READY: &str = "NotReady";
    /// The object is available.
    pub const AVAILABLE: &str = "Available";
    /// Availability is false or unknown.
    pub const NOT_AVAILABLE: &str = "NotAvailable";
    /// The control plane was complete at least once.
    pub const INITIALIZED: &str = "Initialized";
    /// The control plane was not complete yet.
    pub const NOT_INITIALIZED: &str = "NotInitialized";
    /// The referenced object does not exist.
    pub const OBJECT_DOES_NOT_EXIST: &str = "ObjectDoesNotExist";
    /// The referenced object existed and was deleted.
    pub const OBJECT_DELETED: &str = "ObjectDeleted";
    /// No machines are asked for.
    pub const NO_WORKERS: &str = "NoWorkers";
    /// The object is not paused.
    pub const NOT_PAUSED: &str = "NotPaused";
    /// The object is not being deleted.
    pub const NOT_DELETING: &str = "NotDeleting";
    /// Deletion waits for machines and their groups.
    pub const WAITING_FOR_WORKERS_DELETION: &str = "WaitingForWorkersDeletion";
    /// Deletion waits for the control plane.
    pub const WAITING_FOR_CONTROL_PLANE_DELETION: &str = "WaitingForControlPlaneDeletion";
    /// Deletion waits for the infrastructure.
    pub const WAITING_FOR_INFRASTRUCTURE_DELETION: &str = "WaitingForInfrastructureDeletion";
    /// A reference names an object that cannot be used.
    pub const INVALID_REFERENCE: &str = "InvalidReference";
}
