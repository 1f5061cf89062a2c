//! The catalogue of served resources: built-in ones, and those that CRDs define.
//!
//! A [`Catalogue`] never changes; a CRD that comes, changes or goes makes a new one, which is swapped in. A
//! request works with the catalogue it began with.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, OnceLock, PoisonError, RwLock};

use capt_schema::Schema;
use tokio_util::sync::CancellationToken;

use crate::builtin;
use crate::lazy::Lazy;
use crate::managed_fields::{Kind, SchemaError, TypeInfo};
use crate::resource::crd::{self, CrdBudget, CrdCache};
use crate::resource::{Resource, Version, api_version, schema_cache};

/// One version of a resource with all that a request needs of it.
#[derive(Debug)]
pub struct Served {
    /// The resource.
    pub resource: Arc<Resource>,
    /// The version of the path.
    pub version: Arc<Version>,
    /// `group/version`, or the version alone in the core group.
    pub api_version: String,
    /// The name of the resource in the store.
    pub store_name: Arc<str>,
    /// Checks, prunes and defaults bodies of this version.
    pub schema: Lazy<Arc<Schema>>,
    /// The types of the fields, in every version.
    pub kind: Lazy<Arc<Kind>>,
    /// The schema of the storage version, where that is another one.
    pub stored_schema: Option<Arc<Schema>>,
    /// Schemas of served versions that objects may still be stored in, by `group/version`.
    pub older_schemas: Vec<(String, Arc<Schema>)>,
    /// True if what is written through one version may not be what another one would have written.
    pub versions_differ: bool,
    /// Objects that were written before may lack defaults that the schema has by now.
    pub defaults_since: Option<u64>,
    /// Returns true if objects that lack defaults may be longer than they are stored when they have them.
    pub grows: bool,
    /// The room that CRDs share, if this is the resource of CRDs.
    pub room: Option<Arc<CrdBudget>>,
    /// Cancelled when something else is served in its place, or nothing.
    pub replaced: CancellationToken,
    weight: OnceLock<usize>,
}

impl Served {
    /// About how many bytes a definition takes, with all its versions; nothing where it is built in.
    pub fn weight(&self) -> usize {
        let weight = || {
            let schemas: Vec<_> =
                [Some(&*self.schema), self.stored_schema.as_ref()].into_iter().flatten().cloned().collect();
            crd::weight(&self.resource.versions, &schemas)
        };
        if self.resource.custom { *self.weight.get_or_init(weight) } else { 0 }
    }
}

/// Why a resource cannot be served.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ServeError {
    /// The schema is refused.
    #[error("schema of {0}: {1}")]
    Schema(String, String),
    /// The schema has no types for server-side apply.
    #[error("types of {0}")]
    Types(String, #[source] SchemaError),
}

/// All that is served.
#[derive(Debug, Default)]
pub struct Catalogue {
    served: HashMap<(String, String, String), Arc<Served>>,
    resources: Vec<Arc<Resource>>,
}

impl Catalogue {
    /// A catalogue of these resources.
    pub fn of(resources: Vec<Arc<Resource>>) -> Result<Self, ServeError> {
        Self::default().with(resources)
    }

    /// The built-in resources. They are the same in every server of a process, and made once.
    pub fn built_in() -> Result<Self, ServeError> {
        static BUILT_IN: LazyLock<Result<Catalogue, ServeError>> =
            LazyLock::new(|| Catalogue::of(builtin::resources()));
        let Self { served, resources } = BUILT_IN.as_ref().map_err(Clone::clone)?;
        let mut catalogue = Self { served: served.clone(), resources: resources.clone() };
        catalogue.bound_definitions(&Arc::default());
        Ok(catalogue)
    }

    /// Gives the definitions of a server a room.
    pub(crate) fn bound_definitions(&mut self, room: &Arc<CrdBudget>) {
        let of_definitions = |served: &&mut Arc<Served>| served.resource.kind == "CustomResourceDefinition";
        for served in self.served.values_mut().filter(of_definitions) {
            if let Some(mut bounded) = serve_built_in(&served.resource) {
                bounded.room = Some(Arc::clone(room));
                *served = Arc::new(bounded);
            }
        }
    }

    /// A catalogue of these resources. What this one has of them is taken over: compiling the schema of a resource
    /// takes milliseconds, and a definition that changes leaves the others as they are.
    pub fn with(&self, resources: Vec<Arc<Resource>>) -> Result<Self, ServeError> {
        let mut served = HashMap::new();
        let mut add = |all: Vec<Arc<Served>>| {
            for one in all {
                let Resource { group, plural, .. } = &*one.resource;
                served.insert((group.clone(), one.version.name.clone(), plural.clone()), one);
            }
        };
        let mut new = Vec::new();
        for resource in &resources {
            match self.known(resource) {
                known if known.is_empty() => new.push(resource),
                known => add(known),
            }
        }
        serve_all(&new)?.into_iter().for_each(add);
        Ok(Self { served, resources })
    }

    /// Returns whether these are the resources of this catalogue.
    pub fn is_of(&self, resources: &[Arc<Resource>]) -> bool {
        self.resources.len() == resources.len()
            && self.resources.iter().zip(resources).all(|(ours, other)| same(ours, other))
    }

    /// Every version of a resource that is served just so.
    fn known(&self, resource: &Arc<Resource>) -> Vec<Arc<Served>> {
        let versions = resource.versions.iter();
        let found =
            versions.filter_map(|version| self.find(&resource.group, &version.name, &resource.plural));
        found.filter(|served| same(&served.resource, resource)).cloned().collect()
    }

    /// The resource at a path.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Served>> {
        self.served.get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
    }

    /// The resource of a kind, in any version.
    pub fn of_kind(&self, group: &str, kind: &str) -> Option<&Arc<Resource>> {
        self.resources.iter().find(|resource| resource.group == group && resource.kind == kind)
    }

    /// Every resource.
    pub fn resources(&self) -> &[Arc<Resource>] {
        &self.resources
    }

    /// The preferred version of a resource.
    pub fn preferred(&self, resource: &Resource) -> Option<&Arc<Served>> {
        self.find(&resource.group, &resource.versions.first()?.name, &resource.plural)
    }
}

/// Built-in resources are compared by place: their schemas are long.
fn same(left: &Arc<Resource>, right: &Arc<Resource>) -> bool {
    Arc::ptr_eq(left, right) || left == right
}

/// Serves several resources, on all cores: a start waits for it.
fn serve_all(resources: &[&Arc<Resource>]) -> Result<Vec<Vec<Arc<Served>>>, ServeError> {
    let lanes = std::thread::available_parallelism().map_or(1, usize::from).min(resources.len());
    if lanes < 2 {
        return resources.iter().map(|resource| serve(resource)).collect();
    }
    let next = AtomicUsize::new(0);
    let lane = || {
        let take = || resources.get(next.fetch_add(1, Ordering::Relaxed)).map(|resource| serve(resource));
        std::iter::from_fn(take).collect::<Result<Vec<_>, _>>()
    };
    std::thread::scope(|scope| {
        // A thread that cannot be had is not missed: the others do its part.
        let start = |_| std::thread::Builder::new().name("schemas".to_owned()).spawn_scoped(scope, lane).ok();
        let others: Vec<_> = (1..lanes).filter_map(start).collect();
        let mut all = lane()?;
        for other in others {
            all.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        Ok(all)
    })
}

/// A built-in resource. That each can be made is tested.
fn serve_built_in(resource: &Arc<Resource>) -> Option<Served> {
    let version = Arc::clone(resource.versions.first()?);
    let (group, kind, of) = (resource.group.clone(), resource.kind.clone(), Arc::clone(&version));
    Some(Served {
        resource: Arc::clone(resource),
        api_version: api_version(&resource.group, &version.name),
        store_name: store_name(resource),
        schema: Lazy::new(move || schema_cache::take(&of.open_api).expect("a built-in schema")),
        kind: Lazy::new(move || Arc::new(builtin::field_kind(&group, &kind).expect("a built-in kind"))),
        stored_schema: None,
        older_schemas: Vec::new(),
        versions_differ: false,
        defaults_since: None,
        grows: false,
        room: None,
        replaced: CancellationToken::new(),
        weight: OnceLock::new(),
        version,
    })
}

/// The name of a resource in the store. Events of both groups are the same objects.
fn store_name(resource: &Resource) -> Arc<str> {
    let group = if resource.group == "events.k8s.io" { "" } else { &resource.group };
    format!("{group}/{}", resource.plural).into()
}

fn serve(resource: &Arc<Resource>) -> Result<Vec<Arc<Served>>, ServeError> {
    if !resource.custom {
        return Ok(serve_built_in(resource).map(Arc::new).into_iter().collect());
    }
    let title = |version: &Version| format!("{}/{} {}", resource.group, version.name, resource.kind);
    let mut kind = Kind::new(&resource.kind);
    let mut schemas = Vec::new();
    for version in &resource.versions {
        let no_types = |error| ServeError::Types(title(version), error);
        let types = TypeInfo::from_crd_schema(&version.open_api).map_err(no_types)?;
        kind = kind.with_version(&api_version(&resource.group, &version.name), types);
        let schema = schema_cache::take(&version.open_api).map_err(|errors| {
            let said: Vec<String> = errors.iter().map(ToString::to_string).collect();
            ServeError::Schema(title(version), said.join("; "))
        })?;
        schemas.push((Arc::clone(version), schema));
    }
    let kind = Arc::new(kind);
    let is_stored = |version: &Version| version.name == resource.storage_version;
    let stored = schemas.iter().find(|(version, _)| is_stored(version)).map(|(_, schema)| Arc::clone(schema));
    let store_name = store_name(resource);
    let first = schemas.first().map(|(version, _)| Arc::clone(version));
    let versions_differ = schemas
        .iter()
        .any(|(version, _)| first.as_ref().is_some_and(|first| first.open_api != version.open_api));
    let grows = stored.as_ref().is_none_or(|schema| schema.has_defaults());
    let older_schemas: Vec<(String, Arc<Schema>)> = schemas
        .iter()
        .filter(|(version, _)| !is_stored(version) && resource.stored_versions.contains(&version.name))
        .map(|(version, schema)| (api_version(&resource.group, &version.name), Arc::clone(schema)))
        .collect();
    let served = schemas.into_iter().map(|(version, schema)| Served {
        resource: Arc::clone(resource),
        api_version: api_version(&resource.group, &version.name),
        defaults_since: schema.has_defaults().then_some(resource.defined_at.0),
        versions_differ,
        grows,
        room: None,
        replaced: CancellationToken::new(),
        weight: OnceLock::new(),
        stored_schema: stored.clone().filter(|_| !is_stored(&version)),
        older_schemas: older_schemas.clone(),
        version,
        store_name: Arc::clone(&store_name),
        schema: schema.into(),
        kind: Arc::clone(&kind).into(),
    });
    Ok(served.map(Arc::new).collect())
}

/// The best version of a resource that is not served, for the server's own work on its objects.
pub fn alone(resource: Resource) -> Option<Arc<Served>> {
    serve(&Arc::new(resource)).ok()?.into_iter().next()
}

/// The catalogue of the moment.
#[derive(Debug, Default)]
pub struct Registry {
    current: RwLock<Arc<Catalogue>>,
    /// The sources of the catalogue. Locked while a new one is built, so that an older one never replaces a newer one.
    pub(crate) definitions: tokio::sync::Mutex<CrdCache>,
}

impl Registry {
    /// The current catalogue.
    pub fn current(&self) -> Arc<Catalogue> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the catalogue. Watches of resources that are no longer served are notified.
    pub fn replace(&self, catalogue: Catalogue) {
        let catalogue = Arc::new(catalogue);
        let before = {
            let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *current, Arc::clone(&catalogue))
        };
        for (path, served) in &before.served {
            let is_served = catalogue.served.get(path).is_some_and(|new| Arc::ptr_eq(new, served));
            // Those that are built in are shared with other servers of the process.
            if served.resource.custom && !is_served {
                served.replaced.cancel();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resource::crd;

    fn resource(plural: &str, field: &str) -> Arc<Resource> {
        let definition = json!({
            "metadata": {"name": format!("{plural}.example.dev")},
            "spec": {
                "group": "example.dev", "scope": "Namespaced",
                "names": {"plural": plural, "singular": plural, "kind": plural, "listKind": plural},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {field: {"type": "string"}}}}}],
            },
        });
        Arc::new(crd::resource(&definition).unwrap())
    }

    #[test]
    fn what_is_unchanged_is_taken_over_and_what_changed_is_not() {
        let first = Catalogue::of(vec![resource("as", "x"), resource("bs", "x")]).unwrap();
        assert!(first.is_of(&[resource("as", "x"), resource("bs", "x")]));
        let changed = [resource("as", "x"), resource("bs", "y")];
        assert!(!first.is_of(&changed));
        assert!(!first.is_of(&changed[..1]));
        let second = first.with(changed.to_vec()).unwrap();
        let of =
            |catalogue: &Catalogue, plural| Arc::clone(catalogue.find("example.dev", "v1", plural).unwrap());
        assert!(Arc::ptr_eq(&of(&first, "as"), &of(&second, "as")));
        assert!(!Arc::ptr_eq(&of(&first, "bs"), &of(&second, "bs")));
        assert!(of(&second, "bs").version.open_api["properties"].get("y").is_some());
    }
}
