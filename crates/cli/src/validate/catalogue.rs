//! The kinds that are known, and what to say of one that is not.

use capt_api::names::{CONTROL_PLANE_GROUP, INFRASTRUCTURE_GROUP};
use capt_schema::Schema;
use serde_json::Value;

use super::suggest::nearest;
use capt_yaml::{Node, Position};

/// The kinds of Kubernetes' own group without a name, where a kind outside this list is a mistake.
const CORE_KINDS: [&str; 17] = [
    "Binding",
    "ConfigMap",
    "Endpoints",
    "Event",
    "LimitRange",
    "List",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "PodTemplate",
    "ReplicationController",
    "ResourceQuota",
    "Secret",
    "Service",
    "ServiceAccount",
];

/// The kinds that can be checked.
pub struct Catalogue {
    kinds: Vec<CatalogueEntry>,
}

/// A kind that can be checked.
pub struct CatalogueEntry {
    pub api_version: String,
    pub name: String,
    pub schema: Schema,
    /// Parses an object as the type that the controllers use.
    pub parse: Parse,
}

type Parse = fn(Value) -> Result<(), serde_path_to_error::Error<serde_json::Error>>;

impl CatalogueEntry {
    fn of(kind: &capt_api::crd::Kind) -> Self {
        let spec = &kind.crd.spec;
        let version = spec.versions.first().expect("a CRD of CAPT has its one version");
        let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
        let schema = serde_json::to_value(schema).expect("a schema is JSON");
        Self {
            api_version: format!("{}/{}", spec.group, version.name),
            name: spec.names.kind.clone(),
            schema: Schema::compile(&schema).unwrap_or_else(|errors| {
                panic!("the CRD of {} is tested to compile: {errors:?}", spec.names.kind)
            }),
            parse: kind.parse,
        }
    }
}

/// Result of looking up a manifest's `apiVersion` and `kind`.
pub enum Lookup<'a> {
    /// A kind that can be checked.
    Known(&'a CatalogueEntry),
    /// A kind of somebody else.
    Foreign,
    /// No kind at all.
    Wrong { at: Position, message: String, help: Option<String> },
}

impl Catalogue {
    /// CAPT's own kinds.
    pub fn of_capt() -> Self {
        Self { kinds: capt_api::kinds().iter().map(CatalogueEntry::of).collect() }
    }

    /// The kind of that name.
    pub fn named(&self, kind: &str) -> Option<&CatalogueEntry> {
        self.kinds.iter().find(|known| known.name == kind)
    }

    /// Finds the kind of an object.
    pub fn look_up(&self, object: &Node) -> Lookup<'_> {
        let api_version =
            match text(object, "apiVersion", "for example infrastructure.cluster.x-k8s.io/v1beta1") {
                Ok(text) => text,
                Err(wrong) => return wrong,
            };
        let kind = match text(object, "kind", "for example CaptMachineDeployment") {
            Ok(text) => text,
            Err(wrong) => return wrong,
        };
        if let Some(known) =
            self.kinds.iter().find(|known| known.api_version == api_version && known.name == kind)
        {
            return Lookup::Known(known);
        }
        self.explain(object, api_version, kind)
    }

    /// Tells a foreign kind from a mistake.
    fn explain(&self, object: &Node, api_version: &str, kind: &str) -> Lookup<'_> {
        let at = |key: &str| object.get(key).map_or(object.at, |node| node.at);
        if let Some(known) = self.kinds.iter().find(|known| known.name == kind) {
            return Lookup::Wrong {
                at: at("apiVersion"),
                message: format!("there is no {kind} in {api_version}"),
                help: Some(format!("write apiVersion: {}", known.api_version)),
            };
        }
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let near = nearest(kind, self.kinds.iter().map(|known| known.name.as_str()));
        let ours = [INFRASTRUCTURE_GROUP, CONTROL_PLANE_GROUP].contains(&group);
        let no_core_kind = api_version == "v1" && !CORE_KINDS.contains(&kind);
        if (!ours && !no_core_kind) || (near.is_none() && is_of_another_provider(kind)) {
            return Lookup::Foreign;
        }
        let help = near
            .or_else(|| no_core_kind.then(|| nearest(kind, CORE_KINDS)).flatten())
            .map(|near| format!("did you mean {near}?"))
            .or_else(|| ours.then(|| format!("CAPT has {}", self.names_in(group))));
        Lookup::Wrong { at: at("kind"), message: format!("there is no kind {kind} in {api_version}"), help }
    }

    fn names_in(&self, group: &str) -> String {
        let names: Vec<&str> = self
            .kinds
            .iter()
            .filter(|kind| kind.api_version.starts_with(&format!("{group}/")))
            .map(|kind| kind.name.as_str())
            .collect();
        names.join(", ")
    }
}

/// Every provider of Cluster API has its kinds in these groups, named like `DockerMachineTemplate`.
fn is_of_another_provider(kind: &str) -> bool {
    let kind = kind.strip_suffix("Template").unwrap_or(kind);
    ["Cluster", "ClusterIdentity", "ControlPlane", "Machine", "MachinePool"]
        .iter()
        .any(|role| kind.strip_suffix(role).is_some_and(|provider| !provider.is_empty()))
}

fn text<'a>(object: &'a Node, key: &str, example: &str) -> Result<&'a str, Lookup<'static>> {
    match object.get(key) {
        Some(node) => node.as_str().filter(|text| !text.is_empty()).ok_or_else(|| Lookup::Wrong {
            at: node.at,
            message: format!("{key} is text, {example}"),
            help: None,
        }),
        None => Err(Lookup::Wrong {
            at: object.at,
            message: format!("{key} is missing: a manifest is a map with apiVersion and kind"),
            help: Some(format!("write {key}, {example}")),
        }),
    }
}
