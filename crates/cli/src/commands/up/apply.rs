//! The files: read and checked as a whole, then applied in the order in which they can be.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use capt_yaml::documents;
use futures::StreamExt;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{ApiResource, Scope, pinned_kind};
use kube::{Client, ResourceExt};
use serde_json::Value;

use super::super::client::in_words;
use super::show::{Event, Show};
use crate::manifest::Origin;
use crate::tree::object_summary::Kind;
use crate::validate::{Report, check_sources, items};

/// Owner of the fields that files set.
const MANAGER: &str = "capt-up";

/// Objects that are applied at the same time: the store writes them together.
const AT_ONCE: usize = 4;

/// Applied objects that may become ready: kind, namespace and name.
pub type Applied = Vec<(Kind, String, String)>;

/// Objects of files that are all in order.
#[derive(Debug, Default)]
pub struct Manifests {
    objects: Vec<Value>,
    /// Warnings of the check of the files.
    pub warnings: Report,
}

impl Manifests {
    /// Reads every file; one that is wrong anywhere makes all of them unusable. The demo is known to be good: a test says so.
    pub fn read(files: &[PathBuf], recursive: bool, demo: bool) -> Result<Self, Report> {
        let sources: Vec<_> =
            files.iter().flat_map(|path| Origin::from_argument(path, recursive).read()).collect();
        let warnings = if sources.is_empty() { Report::default() } else { check_sources(&sources) };
        if !warnings.is_good() {
            return Err(warnings);
        }
        let texts = sources.iter().flatten().map(|source| &*source.text);
        let mut objects: Vec<Value> = Vec::new();
        for text in texts.chain(super::DEMO.into_iter().filter(|_| demo)) {
            for document in documents(text).flatten() {
                items(&document.root, &mut |item| objects.push(item.to_json()));
            }
        }
        // Objects of one rank stay in the order of the files.
        objects.sort_by_key(rank);
        Ok(Self { objects, warnings })
    }

    /// Returns true if one of them names a path below a folder.
    pub fn name(&self, folder: &Path) -> bool {
        let folder = folder.to_string_lossy();
        self.objects.iter().any(|object| object.to_string().contains(&*folder))
    }

    /// Applies them, a few at a time; the first that is refused ends it, with what was said, though some after it may be applied.
    /// Nothing is, where one of them has no place on the API.
    pub async fn apply(&self, client: &Client, show: &mut Show) -> io::Result<Applied> {
        self.find_places(client).await?;
        let mut applied = Vec::new();
        for objects in together(&self.objects) {
            let kinds = find_all(client, objects).await?;
            let each = |object| apply_one(client, &kinds, object);
            let mut done = futures::stream::iter(objects).map(each).buffered(AT_ONCE);
            while let Some(done) = done.next().await {
                let Done { gvk, namespace, name, result } = done?;
                show.event(&Event::Applied { kind: &gvk.kind, namespace: &namespace, name: &name, result })?;
                applied.extend(Kind::find(&gvk.group, &gvk.kind).map(|kind| (kind, namespace, name)));
            }
        }
        show.event(&Event::AllApplied { objects: self.objects.len() })?;
        Ok(applied)
    }
}

/// Objects that the API cannot hold.
#[derive(Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Homeless {
    /// An object whose kind nobody serves.
    Kind(String),
    /// An object whose namespace is not there.
    Namespace(String),
}

impl Manifests {
    /// Makes sure that the API serves every kind, or will once the CRDs of the files are applied, and has every namespace.
    async fn find_places(&self, client: &Client) -> io::Result<()> {
        let mut kinds: HashMap<GroupVersionKind, Option<bool>> = HashMap::new();
        let mut namespaces = HashMap::new();
        let mut homeless = Vec::new();
        for object in &self.objects {
            let gvk = gvk(object);
            let namespaced = if let Some(known) = kinds.get(&gvk) {
                *known
            } else {
                let known = match defined(&self.objects, &gvk) {
                    Some(namespaced) => Some(namespaced),
                    None => served(client, &gvk).await?.map(|(_, namespaced)| namespaced),
                };
                kinds.insert(gvk.clone(), known);
                known
            };
            let named = format!("{} {}", gvk.kind, text(object, "/metadata/name"));
            let Some(namespaced) = namespaced else {
                homeless.push(Homeless::Kind(format!(
                    "{named}: the API knows no {} of {}",
                    gvk.kind,
                    gvk.api_version()
                )));
                continue;
            };
            let namespace = text(object, "/metadata/namespace");
            if !namespaced || namespace.is_empty() {
                continue;
            }
            if let Entry::Vacant(vacant) = namespaces.entry(namespace.clone()) {
                vacant.insert(self.brings(&namespace) || has_namespace(client, &namespace).await?);
            }
            if !namespaces[&namespace] {
                homeless.push(Homeless::Namespace(format!("{named}: there is no namespace {namespace}")));
            }
        }
        refuse(homeless)
    }

    /// Returns true if a namespace is among the objects.
    fn brings(&self, namespace: &str) -> bool {
        self.objects
            .iter()
            .any(|object| object["kind"] == "Namespace" && object["metadata"]["name"] == namespace)
    }
}

fn refuse(mut homeless: Vec<Homeless>) -> io::Result<()> {
    if homeless.is_empty() {
        return Ok(());
    }
    homeless.sort();
    let lines =
        homeless.iter().map(|(Homeless::Kind(words) | Homeless::Namespace(words))| format!("\n  {words}"));
    Err(io::Error::other(format!("nothing was applied:{}", lines.collect::<String>())))
}

/// Returns true if a CRD among the objects defines a kind whose objects are in namespaces, false if they are not.
fn defined(objects: &[Value], gvk: &GroupVersionKind) -> Option<bool> {
    let crds = objects.iter().filter(|object| object["kind"] == "CustomResourceDefinition");
    let defines = |spec: &&Value| {
        let served = |version: &Value| version["name"] == *gvk.version && version["served"] != false;
        spec["group"] == *gvk.group
            && spec["names"]["kind"] == *gvk.kind
            && spec["versions"].as_array().is_some_and(|versions| versions.iter().any(served))
    };
    let spec = crds.map(|crd| &crd["spec"]).find(defines)?;
    Some(spec["scope"] != "Cluster")
}

async fn has_namespace(client: &Client, name: &str) -> io::Result<bool> {
    let api: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
    Ok(api.get_metadata_opt(name).await.map_err(in_words)?.is_some())
}

/// Parts of a list that may be applied in any order: what others need comes before them, and of an object that is there twice the
/// last wins.
fn together(objects: &[Value]) -> Vec<&[Value]> {
    let (mut parts, mut begin) = (Vec::new(), 0);
    let mut names = HashSet::new();
    for (at, object) in objects.iter().enumerate() {
        let GroupVersionKind { group, kind, .. } = gvk(object);
        // An object is the same in every version, and without a namespace in the default one.
        let namespace = Some(text(object, "/metadata/namespace")).filter(|namespace| !namespace.is_empty());
        let namespace = namespace.unwrap_or_else(|| "default".to_owned());
        let name = (group, kind, namespace, text(object, "/metadata/name"));
        if rank(object) != rank(&objects[begin]) || names.contains(&name) {
            parts.push(&objects[begin..at]);
            names.clear();
            begin = at;
        }
        names.insert(name);
    }
    parts.push(&objects[begin..]);
    parts
}

/// Rank in the order of applying: namespaces and CRDs come before their objects.
fn rank(object: &Value) -> u8 {
    match object["kind"].as_str() {
        Some("Namespace") => 0,
        Some("CustomResourceDefinition") => 1,
        _ => 2,
    }
}

/// Kinds as the API serves them; true for those in namespaces.
type Kinds = HashMap<GroupVersionKind, (ApiResource, bool)>;

async fn find_all(client: &Client, objects: &[Value]) -> io::Result<Kinds> {
    let mut kinds = Kinds::new();
    for object in objects {
        if let Entry::Vacant(vacant) = kinds.entry(gvk(object)) {
            let found = find(client, vacant.key()).await.map_err(failed(object))?;
            vacant.insert(found);
        }
    }
    Ok(kinds)
}

/// An object that was applied.
struct Done {
    gvk: GroupVersionKind,
    namespace: String,
    name: String,
    result: &'static str,
}

async fn apply_one(client: &Client, kinds: &Kinds, object: &Value) -> io::Result<Done> {
    let (gvk, name) = (gvk(object), text(object, "/metadata/name"));
    let (resource, namespaced) = &kinds[&gvk];
    let api: Api<DynamicObject> = if *namespaced {
        let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str);
        Api::namespaced_with(client.clone(), namespace.unwrap_or("default"), resource)
    } else {
        Api::all_with(client.clone(), resource)
    };
    let before = api.get_metadata_opt(&name).await.map_err(in_words).map_err(failed(object))?;
    let params = PatchParams::apply(MANAGER);
    let now =
        api.patch(&name, &params, &Patch::Apply(object)).await.map_err(conflict).map_err(failed(object))?;
    let result = match before {
        None => "created",
        Some(before) if before.metadata.resource_version == now.metadata.resource_version => "unchanged",
        Some(_) => "changed",
    };
    Ok(Done { gvk, namespace: now.namespace().unwrap_or_default(), name, result })
}

fn failed(object: &Value) -> impl Fn(io::Error) -> io::Error {
    let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
    move |error| io::Error::other(format!("apply {kind} {name}: {error}"))
}

fn text(object: &Value, path: &str) -> String {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn gvk(object: &Value) -> GroupVersionKind {
    let version = text(object, "/apiVersion");
    let (group, version) = version.split_once('/').unwrap_or(("", &version));
    GroupVersionKind::gvk(group, version, &text(object, "/kind"))
}

/// Finds the served version of a kind, which must exist.
async fn find(client: &Client, gvk: &GroupVersionKind) -> io::Result<(ApiResource, bool)> {
    let unknown = || io::Error::other(format!("the API knows no {} of {}", gvk.kind, gvk.api_version()));
    served(client, gvk).await?.ok_or_else(unknown)
}

/// Finds the served version of a kind. Those of the tree are known; for others the API is asked.
async fn served(client: &Client, gvk: &GroupVersionKind) -> io::Result<Option<(ApiResource, bool)>> {
    let known = Kind::find(&gvk.group, &gvk.kind).map(Kind::resource);
    if let Some(resource) = known.filter(|resource| resource.version == gvk.version) {
        return Ok(Some((resource, true)));
    }
    match pinned_kind(client, gvk).await {
        Ok((resource, capabilities)) => Ok(Some((resource, capabilities.scope == Scope::Namespaced))),
        Err(kube::Error::Discovery(_)) => Ok(None),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(in_words(error)),
    }
}

/// A conflict names who owns what; this says what can be done about it.
fn conflict(error: kube::Error) -> io::Error {
    match &error {
        kube::Error::Api(status) if status.code == 409 => io::Error::other(format!(
            "{}\n  somebody else set these fields: take them out of the file, or take them over with kubectl apply --server-side --force-conflicts",
            status.message
        )),
        _ => in_words(error),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_applied_together() {
        let object = |word: &str| {
            let (kind, name) = word.split_once('/').unwrap();
            json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}})
        };
        for (words, expected) in [
            ("", vec![0]),
            ("ConfigMap/a ConfigMap/b Secret/a", vec![3]),
            ("Namespace/a Namespace/b CustomResourceDefinition/c ConfigMap/a", vec![2, 1, 1]),
            ("ConfigMap/a ConfigMap/b ConfigMap/a ConfigMap/b ConfigMap/c", vec![2, 3]),
            ("ConfigMap/a ConfigMap/a ConfigMap/a", vec![1, 1, 1]),
        ] {
            let objects: Vec<Value> = words.split_whitespace().map(object).collect();
            let parts: Vec<usize> = together(&objects).iter().map(|part| part.len()).collect();
            assert_eq!(parts, expected, "{words}");
        }
        let mut same = [object("ConfigMap/a"), object("ConfigMap/a")];
        same[1]["metadata"]["namespace"] = "default".into();
        assert_eq!(together(&same).len(), 2, "one object, named in two ways");
    }

    #[test]
    fn kinds_that_the_files_define() {
        let crd = json!({"kind": "CustomResourceDefinition", "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"kind": "Widget"},
            "versions": [{"name": "v1", "served": true}, {"name": "v1alpha1", "served": false}],
        }});
        let rows = [
            ("example.com", "v1", "Widget", Some(false)),
            ("example.com", "v1alpha1", "Widget", None),
            ("example.com", "v2", "Widget", None),
            ("example.org", "v1", "Widget", None),
            ("example.com", "v1", "Gadget", None),
        ];
        for (group, version, kind, expected) in rows {
            let wanted = GroupVersionKind::gvk(group, version, kind);
            assert_eq!(defined(std::slice::from_ref(&crd), &wanted), expected, "{group}/{version} {kind}");
        }
        assert!(refuse(Vec::new()).is_ok());
        let words = refuse(vec![Homeless::Namespace("b".into()), Homeless::Kind("a".into())]).unwrap_err();
        assert_eq!(words.to_string(), "nothing was applied:\n  a\n  b");
    }
}
