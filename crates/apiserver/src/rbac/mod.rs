//! RBAC: Roles, ClusterRoles and their bindings, evaluated as Kubernetes does.
//!
//! Members of `system:masters` may do everything and are never looked up. For everybody else the bindings are read
//! from the store at every question, so that an answered write counts at once; what JSON says is parsed once per
//! revision of an object.
//!
//! | File | What is in it |
//! |---|---|
//! | `rule` | one rule: what it allows |
//! | `coverage` | whether some rules have every right that others have |
//! | `escalation` | prevents that users grant rights which they do not have |
//! | [`defaults`] | the roles and bindings that are always there |

mod coverage;
pub mod defaults;
mod escalation;
mod rule;

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;

use crate::authn::User;
use crate::status::go;
use crate::store::{self, Key, ListQuery, Revision, Store};

pub(crate) use escalation::Grant;
pub use rule::{Attributes, ResourceAttributes, Rule};

/// The API group.
pub const GROUP: &str = "rbac.authorization.k8s.io";

/// Errors that are told of one question, and their bytes: bindings can be many, and names long.
const ERRORS: usize = 100;
const ERRORS_BYTES: usize = 32 << 10;

/// Stands for those that are not.
const MORE: &str = "and more";

/// Bytes of objects whose parsed form may lie here before all are forgotten, those of the past among them. Parsed, they take
/// about twice as much; what an object takes besides its bytes is about as much as a short one.
const REMEMBERED: usize = 16 << 20;
const OVERHEAD: usize = 1 << 10;

/// An answer to "may they".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// True if they may.
    pub allowed: bool,
    /// Why, or what went wrong on the way; may be empty.
    pub reason: String,
}

/// The rules of a user in a namespace, or outside of namespaces.
#[derive(Debug, Default)]
pub struct Rules {
    /// The role of each binding, shared with the cache of parsed roles.
    roles: Vec<Arc<Parsed>>,
    /// Bindings to roles that are not there, and the like.
    pub errors: Vec<String>,
}

impl Rules {
    /// The rules that apply, in the order of the bindings.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.roles.iter().flat_map(|role| role.rules.iter().flatten())
    }

    /// The rules that apply; those of a role that is bound several times are listed once.
    fn distinct(&self) -> impl Iterator<Item = &Rule> {
        let mut seen = HashSet::new();
        let roles = self.roles.iter().filter(move |role| seen.insert(Arc::as_ptr(role)));
        roles.flat_map(|role| role.rules.iter().flatten())
    }
}

/// Answers questions about rights.
#[derive(Debug, Default)]
pub struct Rbac {
    remembered: Mutex<Remembered>,
}

#[derive(Debug, Default)]
struct Remembered {
    parsed: HashMap<Key, (Revision, Arc<Parsed>)>,
    /// Bytes of the objects that were parsed since all were forgotten.
    bytes: usize,
}

impl Remembered {
    fn add(&mut self, object: &store::Object, parsed: Arc<Parsed>) {
        let bytes = object.bytes().len() + OVERHEAD;
        if self.bytes + bytes > REMEMBERED {
            *self = Self::default();
        }
        self.bytes += bytes;
        self.parsed.insert(object.key().clone(), (object.revision(), parsed));
    }
}

/// The parsed content of a role or a binding.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Parsed {
    rules: Option<Vec<Rule>>,
    role_ref: RoleRef,
    subjects: Option<Vec<Subject>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct RoleRef {
    kind: String,
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Subject {
    kind: String,
    name: String,
    namespace: String,
}

/// A user, indexed for the search in bindings: a review asks about thousands of groups, a binding names as many.
struct Member<'a> {
    name: &'a str,
    groups: HashSet<&'a str>,
}

impl<'a> Member<'a> {
    fn new(user: &'a User) -> Self {
        Self { name: &user.name, groups: user.groups.iter().map(String::as_str).collect() }
    }
}

impl Subject {
    fn is(&self, member: &Member<'_>, namespace: &str) -> bool {
        match self.kind.as_str() {
            "User" => member.name == self.name,
            "Group" => member.groups.contains(self.name.as_str()),
            "ServiceAccount" => {
                let namespace = if self.namespace.is_empty() { namespace } else { &self.namespace };
                let account = member.name.strip_prefix("system:serviceaccount:");
                !namespace.is_empty()
                    && account.and_then(|rest| rest.split_once(':')) == Some((namespace, &self.name))
            }
            _ => false,
        }
    }

    fn describe(&self, namespace: &str) -> String {
        let namespace = if self.namespace.is_empty() { namespace } else { &self.namespace };
        let name = match self.kind.as_str() {
            "ServiceAccount" => format!("{}/{namespace}", self.name),
            _ => self.name.clone(),
        };
        format!("{} {}", self.kind, go::quote(&name))
    }
}

/// A binding that grants a role to the user.
struct Source<'a> {
    key: &'a Key,
    role: &'a RoleRef,
    subject: &'a Subject,
}

impl Source<'_> {
    fn describe(&self) -> String {
        let Key { name, namespace, .. } = self.key;
        let (kind, name) = match namespace.as_ref() {
            "" => ("ClusterRoleBinding", name.to_string()),
            namespace => ("RoleBinding", format!("{name}/{namespace}")),
        };
        let role = format!("{} {}", self.role.kind, go::quote(&self.role.name));
        format!("{kind} {} of {role} to {}", go::quote(&name), self.subject.describe(namespace))
    }
}

impl Rbac {
    /// Decides whether a user may do something.
    pub fn authorize(&self, store: &Store, user: &User, verb: &str, object: &Attributes<'_>) -> Verdict {
        if user.is_master() {
            return Verdict { allowed: true, reason: String::new() };
        }
        let namespace = match object {
            Attributes::Resource(resource) => resource.namespace,
            Attributes::Path(_) => "",
        };
        let mut errors = Vec::new();
        let found = self.visit(store, user, namespace, |found| match found {
            Ok((source, role)) if role.rules.iter().flatten().any(|rule| rule.allows(verb, object)) => {
                ControlFlow::Break(source.describe())
            }
            Ok(_) => ControlFlow::Continue(()),
            Err(error) => {
                tell(&mut errors, error);
                ControlFlow::Continue(())
            }
        });
        match found {
            ControlFlow::Break(source) => {
                Verdict { allowed: true, reason: format!("RBAC: allowed by {source}") }
            }
            ControlFlow::Continue(()) if errors.is_empty() => Verdict::default(),
            ControlFlow::Continue(()) => {
                Verdict { allowed: false, reason: format!("RBAC: {}", aggregate(&errors)) }
            }
        }
    }

    /// The rules of a user in a namespace or, where that is empty, outside of namespaces.
    pub fn rules(&self, store: &Store, user: &User, namespace: &str) -> Rules {
        let mut rules = Rules::default();
        let _: ControlFlow<()> = self.visit(store, user, namespace, |found| {
            match found {
                Ok((_, role)) => rules.roles.push(Arc::clone(role)),
                Err(error) => tell(&mut rules.errors, error),
            }
            ControlFlow::Continue(())
        });
        rules
    }

    /// Visits every role of a user in a namespace, until `ControlFlow::Break`.
    fn visit<B>(
        &self,
        store: &Store,
        user: &User,
        namespace: &str,
        mut see: impl FnMut(Result<(Source<'_>, &Arc<Parsed>), String>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let member = Member::new(user);
        let places = [("clusterrolebindings", ""), ("rolebindings", namespace)];
        // Outside of namespaces there are no role bindings.
        for (plural, place) in places.into_iter().take(if namespace.is_empty() { 1 } else { 2 }) {
            for object in list(store, plural, place) {
                let binding = self.parse(&object);
                let mut subjects = binding.subjects.iter().flatten();
                let Some(subject) = subjects.find(|subject| subject.is(&member, place)) else { continue };
                match self.role(store, &binding.role_ref, place) {
                    Err(error) => see(Err(error))?,
                    Ok(role) => {
                        let source = Source { key: object.key(), role: &binding.role_ref, subject };
                        see(Ok((source, &role)))?;
                    }
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// The role that a binding in a place names.
    fn role(&self, store: &Store, role: &RoleRef, place: &str) -> Result<Arc<Parsed>, String> {
        let (plural, namespace, singular) = match role.kind.as_str() {
            "ClusterRole" => ("clusterroles", "", "clusterrole"),
            "Role" => ("roles", place, "role"),
            other => return Err(format!("unsupported role reference kind: {}", go::quote(other))),
        };
        let found = store.get(&Key::new(format!("{GROUP}/{plural}"), namespace, role.name.as_str()));
        let missing = || format!("{singular}.{GROUP} {} not found", go::quote(&role.name));
        found.map(|object| self.parse(&object)).ok_or_else(missing)
    }

    fn parse(&self, object: &store::Object) -> Arc<Parsed> {
        let remembered = || self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((revision, known)) = remembered().parsed.get(object.key())
            && *revision == object.revision()
        {
            return Arc::clone(known);
        }
        // Megabytes take a while, in which others are asked for. What could be stored is of these types; anything else
        // gives no rights.
        let read: Arc<Parsed> = Arc::new(serde_json::from_slice(object.bytes()).unwrap_or_default());
        remembered().add(object, Arc::clone(&read));
        read
    }
}

fn list(store: &Store, plural: &str, namespace: &str) -> Vec<Arc<store::Object>> {
    let resource = format!("{GROUP}/{plural}");
    let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
    let query = ListQuery { resource: &resource, namespace, ..ListQuery::default() };
    // The newest revision can always be read.
    store.list(&query).map(|page| page.objects).unwrap_or_default()
}

/// Adds an error to those that are told, in bounds.
fn tell(errors: &mut Vec<String>, error: String) {
    if errors.last().is_some_and(|last| last == MORE) {
        return;
    }
    let bytes = errors.iter().map(String::len).sum::<usize>() + error.len();
    let fits = errors.len() < ERRORS && bytes <= ERRORS_BYTES;
    errors.push(if fits { error } else { MORE.to_owned() });
}

/// Several errors as Kubernetes tells them together.
fn aggregate(errors: &[String]) -> String {
    let mut distinct: Vec<&str> = Vec::new();
    for error in errors {
        if !distinct.contains(&error.as_str()) {
            distinct.push(error);
        }
    }
    match distinct.as_slice() {
        [one] => (*one).to_owned(),
        many => format!("[{}]", many.join(", ")),
    }
}

#[cfg(test)]
mod tests;
