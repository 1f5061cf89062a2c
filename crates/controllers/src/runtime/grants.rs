//! References across namespaces: the one way from a reference to the object that it names.
//!
//! ```text
//! reference -> Grants::read / Grants::write   (the same namespace, or a ReferenceGrant there)
//!           -> Readable<K> / Writable<K>       (made nowhere else)
//!           -> whoever reads or writes a K on somebody's behalf takes that, and no bare name
//! ```
//!
//! Whatever else a reference says, it is the name of an object, in every policy. The check comes before the first look at the object: a refusal says the same whether the object exists or not. A check that
//! depends on grants is noted, so that a grant that comes or goes wakes whoever asked.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use capt_api::conditions::reasons;
use capt_api::grant::{Access, Crossing, GrantFrom, GrantTo, ReferenceGrant, ReferenceGrantSpec, granted};
use capt_api::names::{INFRASTRUCTURE_GROUP, VERSION};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::task::JoinSet;

use super::cache::{Cache, Key};
use super::dependency_index::Looker;
use super::first_list::FirstList;
use super::hex::hex;
use super::name::Name;
use super::writer::Kind;

/// Kind under which grants are noted, by whoever asked for one of a namespace.
pub const WATCHED: &str = "ReferenceGrant";

/// Policy for references across namespaces.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum CrossNamespace {
    /// Every reference is followed: for an API with one user.
    Open,
    /// A reference is followed where its target's namespace grants it.
    #[default]
    Granted,
}

/// The object that refers: its kind and namespace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Referrer<'a> {
    group: &'static str,
    kind: &'static str,
    namespace: &'a str,
}

impl<'a> Referrer<'a> {
    /// An object of kind `K` in a namespace.
    pub fn of<K: Resource<DynamicType = ()>>(namespace: &'a str) -> Self {
        Self { group: fixed(K::group(&())), kind: kind_of::<K>(), namespace }
    }
}

/// An object that its referrer may read: beside it, or granted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Readable<K>(Name, PhantomData<fn() -> K>);

/// An object that its referrer may write: beside it, or granted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Writable<K>(Name, PhantomData<fn() -> K>);

impl<K> Deref for Readable<K> {
    type Target = Name;

    fn deref(&self) -> &Name {
        &self.0
    }
}

impl<K> Deref for Writable<K> {
    type Target = Name;

    fn deref(&self) -> &Name {
        &self.0
    }
}

impl<K> fmt::Display for Readable<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<K> fmt::Display for Writable<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A reference that the namespace it points to does not grant, or that cannot name anything.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refused {
    /// Machine-readable reason.
    pub reason: &'static str,
    /// Sentence, of what is not granted with the grant to write, as `kubectl apply -f -` takes it.
    pub message: String,
}

impl Refused {
    /// Reason of what is not granted.
    pub const REASON: &'static str = reasons::REFERENCE_NOT_GRANTED;

    fn new(crossing: &Crossing<'_>, namespace: &str) -> Self {
        let ((from_group, from_kind, from_namespace), (group, kind, name)) = (crossing.from, crossing.to);
        let spec = ReferenceGrantSpec {
            from: vec![GrantFrom {
                group: from_group.into(),
                kind: from_kind.into(),
                namespace: from_namespace.into(),
            }],
            to: vec![GrantTo {
                group: group.into(),
                kind: kind.into(),
                name: Some(name.into()),
                access: crossing.access,
            }],
        };
        // Two grants of one name would replace each other when they are applied.
        let content = serde_json::to_vec(&spec).unwrap_or_default();
        let grant = json!({
            "apiVersion": format!("{INFRASTRUCTURE_GROUP}/{VERSION}"), "kind": "ReferenceGrant",
            "metadata": {"name": format!("{from_namespace}-{}", hex(&Sha256::digest(&content)[..4])), "namespace": namespace},
            "spec": spec,
        });
        let verb = match crossing.access {
            Access::Read => "refer to",
            Access::Write => "write",
        };
        let message = format!(
            "namespace {namespace} does not allow {from_kind} of namespace {from_namespace} to {verb} {kind} \
             {namespace}/{name}; to allow it, apply: {grant}"
        );
        Self { reason: Self::REASON, message }
    }
}

/// The grants of all namespaces, and the policy.
#[derive(Clone)]
pub struct Grants {
    /// None where every reference is followed.
    known: Option<Cache<ReferenceGrant>>,
}

impl Grants {
    /// Watches the grants, where the policy asks for them.
    pub fn new(client: &Client, policy: CrossNamespace, tasks: &mut JoinSet<()>) -> Self {
        let known = (policy == CrossNamespace::Granted).then(|| {
            let (cache, work) = Cache::new(Api::all(client.clone()), by_namespace);
            tasks.spawn(work);
            cache
        });
        Self { known }
    }

    /// Returns true if references across namespaces need a grant.
    pub fn keep_apart(&self) -> bool {
        self.known.is_some()
    }

    /// Resolves a reference to an object that is read.
    pub fn read<K: Resource<DynamicType = ()>>(
        &self,
        looker: &mut Looker,
        from: Referrer<'_>,
        name: Name,
    ) -> Result<Readable<K>, Refused> {
        self.check::<K>(looker, from, &name, Access::Read)?;
        Ok(Readable(name, PhantomData))
    }

    /// Resolves a reference to an object that is written.
    pub fn write<K: Resource<DynamicType = ()>>(
        &self,
        looker: &mut Looker,
        from: Referrer<'_>,
        name: Name,
    ) -> Result<Writable<K>, Refused> {
        self.check::<K>(looker, from, &name, Access::Write)?;
        Ok(Writable(name, PhantomData))
    }

    fn check<K: Resource<DynamicType = ()>>(
        &self,
        looker: &mut Looker,
        from: Referrer<'_>,
        to: &Name,
        access: Access,
    ) -> Result<(), Refused> {
        // Before all else: the name may be filled in from what anybody wrote, and becomes part of an address.
        if let Some(message) = to.problem(kind_of::<K>()) {
            return Err(Refused { reason: reasons::INVALID, message });
        }
        if self.known.is_some() && from.namespace != to.namespace {
            looker.at(WATCHED, &Name::new(to.namespace.clone(), ""));
        }
        if self.admits::<K>(from, to, access) {
            return Ok(());
        }
        Err(Refused::new(&crossing::<K>(from, to, access), &to.namespace))
    }

    fn admits<K: Resource<DynamicType = ()>>(&self, from: Referrer<'_>, to: &Name, access: Access) -> bool {
        let Some(known) = self.known.as_ref().filter(|_| from.namespace != to.namespace) else { return true };
        let there = known.by(&[Key::Namespace(to.namespace.clone())]);
        granted(&crossing::<K>(from, to, access), there.iter().map(|grant| &grant.spec))
    }

    /// Returns true if references between workspaces in this direction are followed: what somebody only mentions binds nobody.
    pub fn follows<K: Kind>(&self, from: &Name, to: &Name) -> bool {
        self.admitted::<K, K>(from, to)
    }

    /// Returns true if an object of one kind may read one of another.
    pub fn admitted<U: Kind, K: Kind>(&self, from: &Name, to: &Name) -> bool {
        self.admits::<K>(Referrer::of::<U>(&from.namespace), to, Access::Read)
    }

    /// Names of those among `users` that refer to an object and may. What others mention holds nothing up.
    pub fn users<U: Kind, K: Kind>(&self, users: &Cache<U>, to: &Name) -> Vec<Name> {
        let mut names = users.names_by(&[Key::Refers(kind_of::<K>(), to.clone())]);
        names.retain(|user| self.admits::<K>(Referrer::of::<U>(&user.namespace), to, Access::Read));
        names
    }

    /// Returns the number of `users` that refer to an object and may.
    pub fn count<U: Kind, K: Kind>(&self, users: &Cache<U>, to: &Name) -> usize {
        self.count_by::<U, K>(users, to, &Key::Refers(kind_of::<K>(), to.clone()))
    }

    /// Returns the number of those that are ready, as their index tells.
    pub fn count_ready<U: Kind, K: Kind>(&self, users: &Cache<U>, to: &Name) -> usize {
        self.count_by::<U, K>(users, to, &Key::Ready(kind_of::<K>(), to.clone()))
    }

    fn count_by<U: Kind, K: Kind>(&self, users: &Cache<U>, to: &Name, key: &Key) -> usize {
        if self.known.is_none() {
            return users.count(key);
        }
        users.count_if(key, |user| self.admits::<K>(Referrer::of::<U>(&user.namespace), to, Access::Read))
    }

    /// Returns true if a name of one namespace may be told in another without a grant.
    pub fn is_open(&self) -> bool {
        self.known.is_none()
    }

    /// Namespaces whose grants changed, as they are noted under [`WATCHED`].
    pub fn changes(&self) -> BoxStream<'static, Name> {
        match &self.known {
            Some(known) => known.changes().map(|grant| Name::new(grant.namespace, "")).boxed(),
            None => futures::stream::pending().boxed(),
        }
    }

    /// Objects of `cache` in namespaces whose grants changed: those that count who uses them.
    pub fn beside<K: Kind>(&self, cache: &Cache<K>) -> BoxStream<'static, Name> {
        let cache = cache.clone();
        let near = move |changed: Name| {
            let mut near = cache.names();
            near.retain(|name| name.namespace == changed.namespace);
            futures::stream::iter(near)
        };
        self.changes().flat_map(near).boxed()
    }

    /// Waits until the first list is here: what is only not listed yet is not refused.
    pub fn listed(&self) -> BoxFuture<'static, ()> {
        self.known.as_ref().map_or_else(|| std::future::ready(()).boxed(), Cache::listed)
    }

    /// Tells whether it is here, where there is one.
    pub fn first_list(&self) -> Option<FirstList> {
        self.known.as_ref().map(Cache::first_list)
    }
}

fn by_namespace(grant: &ReferenceGrant) -> Vec<Key> {
    vec![Key::Namespace(grant.namespace().unwrap_or_default())]
}

fn crossing<'a, K: Resource<DynamicType = ()>>(
    from: Referrer<'a>,
    to: &'a Name,
    access: Access,
) -> Crossing<'a> {
    Crossing {
        from: (from.group, from.kind, from.namespace),
        to: (fixed(K::group(&())), kind_of::<K>(), &to.name),
        access,
    }
}

fn kind_of<K: Resource<DynamicType = ()>>() -> &'static str {
    fixed(K::kind(&()))
}

/// Groups and kinds of types are written in the code; nothing is granted to, or under, a name that is not.
#[expect(clippy::needless_pass_by_value, reason = "the trait gives it by value")]
fn fixed(text: Cow<'static, str>) -> &'static str {
    match text {
        Cow::Borrowed(text) => text,
        Cow::Owned(_) => "",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use capt_api::workspace::WorkspaceTemplateApply;
    use k8s_openapi::api::core::v1::Secret;
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_refusal_has_the_grant_that_would_allow_it() {
        let from = Referrer::of::<WorkspaceTemplateApply>("123");
        let to = Name::new("true", "db");
        let mut names = Vec::new();
        for access in [Access::Read, Access::Write] {
            let crossing = crossing::<Secret>(from, &to, access);
            let refused = Refused::new(&crossing, &to.namespace);
            let (_, text) = refused.message.split_once("apply: ").unwrap();
            let grant: ReferenceGrant = serde_json::from_str(text).unwrap();
            assert!(granted(&crossing, [&grant.spec]), "{text}");
            let whole: Value = serde_json::from_str(text).unwrap();
            assert_eq!(
                whole["metadata"]["namespace"], "true",
                "names that YAML would take for something else stay text"
            );
            assert!(refused.message.len() < 600, "fits into an event");
            names.push(grant.name_any());
        }
        assert_ne!(names[0], names[1], "one does not replace the other");
    }
}
