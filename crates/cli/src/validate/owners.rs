//! Templates of machines, node groups, networks and control planes: whether each variable that their modules require is given.
//!
//! What such an object passes is what its controller passes: [`capt_planner`] says so for both. Outputs of a node group or a
//! network count where its module is among the files; where it is not, a variable that only they could give is a warning.

use std::collections::{BTreeMap, HashMap};

use capt_api::cluster::{
    CAPTCluster, CAPTClusterSpec, CAPTClusterTemplate, CAPTControlPlane, CAPTControlPlaneSpec,
    CAPTControlPlaneTemplate,
};
use capt_api::machine::{
    CaptMachine, CaptMachineDeployment, CaptMachineSet, CaptMachineTemplate, NodeGroup, NodeGroupStatus,
};
use capt_api::names::{annotations, labels};
use capt_api::refs::ObjectRef;
use capt_planner::cluster::control_plane::{self, ControlPlaneObservation, Network, NetworkFacts};
use capt_planner::cluster::{Cluster, Owner, network};
use capt_planner::inputs::{self, Fields, MachineOwner};
use capt_planner::owned_workspace::Variables;
use capt_planner::{deployment, set};
use capt_schema::FieldPath;
use kube::ResourceExt;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::given::{Given, ManifestReference, Object};
use super::modules::Template;
use super::report::Finding;

/// Checks the template of every object that owns a workspace.
pub fn check(given: &Given) -> Vec<Finding> {
    let files = Files { given, claims: Claims::of(given) };
    given.objects.iter().filter_map(|object| files.user(object)).flat_map(|user| user.check(given)).collect()
}

/// An object that owns a workspace.
struct WorkspaceOwner<'a> {
    object: &'a Object,
    /// Field of the object that is made of it: empty, or `spec.template`.
    within: &'static [&'static str],
    /// The field that names the template.
    field: &'static str,
    template: ObjectRef,
    /// Variables that its controller passes; null for an output, whose value is not known yet.
    passed: Variables,
    /// Fields that would make it pass more.
    fields: Fields,
    /// Other source of variables that is not among the files.
    elsewhere: Option<String>,
}

impl WorkspaceOwner<'_> {
    fn check(&self, given: &Given) -> Vec<Finding> {
        let reference =
            ManifestReference { name: &self.template.name, namespace: self.template.namespace.as_deref() };
        let found = given.find("WorkspaceTemplate", self.object, &reference).and_then(Template::read);
        let Some(template) = found else { return Vec::new() };
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let passed = self.passed.iter().filter(|(_, value)| !value.is_null());
        let passed = passed.map(|(name, value)| (name.clone(), text(value)));
        let shared = template.inputs.iter().map(|input| (input.name.clone(), text(&input.value)));
        // A text that cannot be read is told of its template.
        let Ok(declared) = template.declared(&shared.chain(passed).collect()) else { return Vec::new() };
        let missing = template.missing(&declared, |name| self.passed.contains_key(name));
        missing.into_iter().map(|name| self.missing(name)).collect()
    }

    fn missing(&self, name: &str) -> Finding {
        let within = self.within.iter().fold(FieldPath::root(), |path, part| path.field(part));
        let path = within.field("spec").field(self.field);
        let of = &self.template.name;
        if let Some(elsewhere) = &self.elsewhere {
            let message = format!(
                "WorkspaceTemplate {of} requires variable {name}, and no value is given in these files"
            );
            let help = format!("fine if {elsewhere} gives it");
            return self.object.finding(&path, message).warning().helped(Some(help));
        }
        let message = format!("WorkspaceTemplate {of} requires variable {name}, and no value is given");
        let kind = &self.object.name.kind;
        let field = self.fields.iter().find(|(variable, _)| *variable == name);
        let first = field.map_or_else(
            || format!("a {kind} does not pass it"),
            |(_, field)| format!("set {}", [self.within, &[*field]].concat().join(".")),
        );
        let help = format!("{first}; or give it in the template, or a default in the module");
        self.object.finding(&path, message).helped(Some(help))
    }
}

/// Objects of Cluster API among the files, by kind and name of what each claims.
struct Claims<'a>(HashMap<(&'a str, &'a str), Vec<&'a Object>>);

impl<'a> Claims<'a> {
    fn of(given: &'a Given) -> Self {
        let mut claims: HashMap<_, Vec<&Object>> = HashMap::new();
        for object in ["Cluster", "ClusterClass", "Machine"].iter().flat_map(|kind| given.of_kind(kind)) {
            let spec = &object.value["spec"];
            let plane = &spec["controlPlane"];
            for to in [&spec["controlPlaneRef"], &spec["infrastructureRef"], reference_in(plane)] {
                if let (Some(kind), Some(name)) = (to["kind"].as_str(), to["name"].as_str()) {
                    claims.entry((kind, name)).or_default().push(object);
                }
            }
        }
        Self(claims)
    }

    /// The object that claims another one.
    fn find(&self, object: &Object) -> Option<&'a Object> {
        let claims = self.0.get(&(object.name.kind.as_str(), object.name.name.as_str()))?;
        claims.iter().copied().find(|by| by.may_be_in(object.name.namespace.as_deref()))
    }
}

/// The template that a part of a ClusterClass names, in v1beta1 or v1beta2.
fn reference_in(part: &Value) -> &Value {
    part.get("templateRef").unwrap_or(&part["ref"])
}

fn read<K: DeserializeOwned>(object: &Object) -> Option<K> {
    serde_json::from_value(object.value.clone()).ok()
}

/// Owner of a machine, which decides about the variables that are passed.
enum MachineKind {
    /// It is made for a Machine of Cluster API, which passes more.
    ClusterApi,
    /// It is CAPT's own.
    Own,
}

/// All that is given, to find out what each object passes.
struct Files<'a> {
    given: &'a Given,
    claims: Claims<'a>,
}

/// Field of a templated spec.
const TEMPLATE: &[&str] = &["spec", "template"];

impl<'a> Files<'a> {
    fn user(&self, object: &'a Object) -> Option<WorkspaceOwner<'a>> {
        match object.name.kind.as_str() {
            "CaptMachine" => {
                let machine: CaptMachine = read(object)?;
                let cloned = machine.annotations().contains_key(annotations::CLONED_FROM_NAME);
                let owned = machine.owner_references().iter().any(|owner| owner.kind == "Machine");
                let claimed = cloned || owned || self.claims.find(object).is_some();
                let kind = if claimed { MachineKind::ClusterApi } else { MachineKind::Own };
                Some(self.machine(object, &[], &machine, &kind))
            }
            "CaptMachineSet" => {
                let machine = set::machine(&read::<CaptMachineSet>(object)?, 1);
                Some(self.machine(object, TEMPLATE, &machine, &MachineKind::Own))
            }
            "CaptMachineDeployment" => {
                let set = deployment::set(&read::<CaptMachineDeployment>(object)?, "hash", 1, 1);
                Some(self.machine(object, TEMPLATE, &set::machine(&set, 1), &MachineKind::Own))
            }
            "CaptMachineTemplate" => {
                let template: CaptMachineTemplate = read(object)?;
                let machine = CaptMachine::new(&object.name.name, template.spec.template.spec);
                Some(self.machine(object, TEMPLATE, &machine, &MachineKind::ClusterApi))
            }
            "NodeGroup" => Self::group(object),
            "CAPTCluster" => Self::network(object, &[], read::<CAPTCluster>(object)?.spec),
            "CAPTClusterTemplate" => {
                let template: CAPTClusterTemplate = read(object)?;
                Self::network(object, TEMPLATE, template.spec.template.spec)
            }
            "CAPTControlPlane" => Some(self.control_plane(object, &[], &read(object)?)),
            "CAPTControlPlaneTemplate" => {
                let spec = read::<CAPTControlPlaneTemplate>(object)?.spec.template.spec;
                let spec = CAPTControlPlaneSpec {
                    // A topology has its own.
                    version: spec.version.unwrap_or_else(|| "v1.0.0".to_owned()),
                    workspace_template_ref: spec.workspace_template_ref,
                    control_plane_config: spec.control_plane_config,
                    additional_tags: spec.additional_tags,
                    ..CAPTControlPlaneSpec::default()
                };
                let plane = CAPTControlPlane::new(&object.name.name, spec);
                Some(self.control_plane(object, TEMPLATE, &plane))
            }
            _ => None,
        }
    }

    fn machine(
        &self,
        object: &'a Object,
        within: &'static [&'static str],
        machine: &CaptMachine,
        kind: &MachineKind,
    ) -> WorkspaceOwner<'a> {
        let (group, elsewhere) = self.group_of(object, machine);
        let label = machine.labels().get(labels::CLUSTER_NAME).map(String::as_str);
        let any = Some("any");
        let passed = match kind {
            MachineKind::Own => {
                let owner = MachineOwner { cluster: label, ..MachineOwner::default() };
                inputs::of_machine(machine, group.as_ref(), owner)
            }
            MachineKind::ClusterApi => {
                let owner = MachineOwner { cluster: label.or(any), failure_domain: any, version: any };
                let secret = inputs::bootstrap("any").into_iter().flat_map(|from| from.map.into_keys());
                let secret = secret.map(|name| (name, Value::Null));
                inputs::of_machine(machine, group.as_ref(), owner).into_iter().chain(secret).collect()
            }
        };
        WorkspaceOwner {
            object,
            within,
            field: "workspaceTemplateRef",
            template: machine.spec.workspace_template_ref.clone(),
            passed,
            fields: inputs::MACHINE_FIELDS,
            elsewhere,
        }
    }

    /// The group that a machine joins, with the outputs that its module declares; and who may give others.
    fn group_of(&self, object: &Object, machine: &CaptMachine) -> (Option<NodeGroup>, Option<String>) {
        let Some(to) = &machine.spec.node_group_ref else { return (None, None) };
        let reference = ManifestReference { name: &to.name, namespace: to.namespace.as_deref() };
        let found = self.given.find("NodeGroup", object, &reference);
        let Some((found, mut group)) = found.and_then(|found| Some((found, read::<NodeGroup>(found)?)))
        else {
            return (None, Some(format!("an output of NodeGroup {}", to.name)));
        };
        let Some(template) = &group.spec.workspace_template_ref else { return (Some(group), None) };
        let outputs = self.outputs(found, template);
        let elsewhere =
            outputs.is_none().then(|| format!("an output of WorkspaceTemplate {}", template.name));
        let outputs = outputs.unwrap_or_default();
        group.status = Some(NodeGroupStatus { outputs, ..NodeGroupStatus::default() });
        (Some(group), elsewhere)
    }

    /// Outputs that a template's module declares and everybody may see; none where the module is not among the files.
    fn outputs(&self, from: &Object, to: &ObjectRef) -> Option<Variables> {
        let reference = ManifestReference { name: &to.name, namespace: to.namespace.as_deref() };
        let template = Template::read(self.given.find("WorkspaceTemplate", from, &reference)?)?;
        let declared = template.declared(&BTreeMap::new()).ok()?;
        let open = declared.outputs.into_iter().filter(|(_, sensitive)| !sensitive);
        Some(open.map(|(name, _)| (name, Value::Null)).collect())
    }

    fn group(object: &'a Object) -> Option<WorkspaceOwner<'a>> {
        let group: NodeGroup = read(object)?;
        Some(WorkspaceOwner {
            object,
            within: &[],
            field: "workspaceTemplateRef",
            passed: inputs::of_node_group(&group),
            template: group.spec.workspace_template_ref?,
            fields: inputs::NODE_GROUP_FIELDS,
            elsewhere: None,
        })
    }

    fn network(
        object: &'a Object,
        within: &'static [&'static str],
        spec: CAPTClusterSpec,
    ) -> Option<WorkspaceOwner<'a>> {
        let network = CAPTCluster::new(&object.name.name, spec);
        Some(WorkspaceOwner {
            object,
            within,
            field: "vpcTemplateRef",
            passed: network::variables(&network, "any"),
            template: network.spec.vpc_template_ref?,
            fields: &[],
            elsewhere: None,
        })
    }

    fn control_plane(
        &self,
        object: &'a Object,
        within: &'static [&'static str],
        plane: &CAPTControlPlane,
    ) -> WorkspaceOwner<'a> {
        let claim = self.claims.find(object);
        let (network, elsewhere) = match claim {
            Some(claim) => self.network_of(claim),
            None => (Network::None, Some("the network of its Cluster".to_owned())),
        };
        let note = |claim: &Object| {
            claim.value["metadata"]["annotations"][annotations::REGION].as_str().map(str::to_owned)
        };
        let cluster = Cluster { name: "any".to_owned(), region: claim.and_then(note), ..Cluster::default() };
        let observed = ControlPlaneObservation {
            object: plane,
            status: None,
            external: false,
            paused: None,
            owner: Owner::Found(Box::new(cluster)),
            network,
            workspace: None,
            workers: Vec::new(),
            undismissed: false,
            access: None,
            probe: None,
        };
        WorkspaceOwner {
            object,
            within,
            field: "workspaceTemplateRef",
            template: plane.spec.workspace_template_ref.clone(),
            passed: control_plane::variables(&observed),
            fields: control_plane::FIELDS,
            elsewhere,
        }
    }

    /// The network of a Cluster or a ClusterClass, with the outputs that its module declares; and who may give others.
    fn network_of(&self, claim: &Object) -> (Network, Option<String>) {
        let spec = &claim.value["spec"];
        let to = if claim.name.kind == "ClusterClass" {
            reference_in(&spec["infrastructure"])
        } else {
            &spec["infrastructureRef"]
        };
        let (Some(kind), Some(reference)) = (to["kind"].as_str(), ManifestReference::read(to)) else {
            return (Network::None, None);
        };
        let found = self.given.find(kind, claim, &reference);
        let spec = match (kind, found) {
            ("CAPTCluster", Some(found)) => read::<CAPTCluster>(found).map(|network| network.spec),
            ("CAPTClusterTemplate", Some(found)) => {
                read::<CAPTClusterTemplate>(found).map(|template| template.spec.template.spec)
            }
            ("CAPTCluster" | "CAPTClusterTemplate", None) => None,
            // Infrastructure of another provider passes nothing.
            _ => return (Network::Ready(NetworkFacts::default()), None),
        };
        let (Some(found), Some(spec)) = (found, spec) else {
            return (Network::None, Some(format!("{kind} {}", reference.name)));
        };
        let mut outputs = Variables::from([("vpc_id".to_owned(), Value::Null)]);
        let mut elsewhere = None;
        if let Some(template) = &spec.vpc_template_ref {
            match self.outputs(found, template) {
                Some(declared) => outputs.extend(declared),
                None => elsewhere = Some(format!("an output of WorkspaceTemplate {}", template.name)),
            }
        }
        let facts = NetworkFacts { region: Some(spec.region), outputs, workspace: None };
        (Network::Ready(facts), elsewhere)
    }
}
