//! Users of each backend: two workspaces with one state would destroy each other's infrastructure.
//!
//! A holder in the same namespace is believed its status. One in another namespace is not: whoever may write a status there could hold up
//! anybody. It counts where this process resolved its inputs, or, before that, where the engine knows its workspace as built: from its own
//! folder, or from what a controller sealed.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use capt_api::workspace::WorkspaceTemplateApply;

use super::super::context::WorkspaceContext;
use crate::runtime::cache::Key;
use crate::runtime::{Error, Name};

/// Backends that instances use, as this process resolved them.
#[derive(Debug, Default)]
pub struct Backends(Mutex<Resolved>);

#[derive(Debug, Default)]
struct Resolved {
    /// By the hash of what names them.
    users: HashMap<String, Name>,
    /// Instances whose inputs were resolved: what their statuses say is of no more interest.
    instances: HashSet<Name>,
}

impl Backends {
    /// Takes a backend for an instance; refused with the one that has it. `yields`: whether that one has to give way.
    fn take(&self, hash: &str, name: &Name, yields: impl Fn(&Name) -> bool) -> Result<(), Name> {
        let mut resolved = self.resolved();
        resolved.instances.insert(name.clone());
        if let Some(user) = resolved.users.get(hash).filter(|user| *user != name && !yields(user)) {
            return Err(user.clone());
        }
        resolved.users.retain(|_, user| user != name);
        resolved.users.insert(hash.to_owned(), name.clone());
        Ok(())
    }

    /// An instance has no backend of its own, or none any more.
    pub fn none(&self, name: &Name) {
        let mut resolved = self.resolved();
        resolved.users.retain(|_, user| user != name);
        resolved.instances.insert(name.clone());
    }

    /// Drops those of an instance that is gone.
    pub fn forget(&self, name: &Name) {
        let mut resolved = self.resolved();
        resolved.users.retain(|_, user| user != name);
        resolved.instances.remove(name);
    }

    fn knows(&self, name: &Name) -> bool {
        self.resolved().instances.contains(name)
    }

    fn user(&self, hash: &str) -> Option<Name> {
        self.resolved().users.get(hash).cloned()
    }

    fn resolved(&self) -> MutexGuard<'_, Resolved> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes the backend with this hash for an instance; refused with the one that has it.
pub async fn take(context: &WorkspaceContext, name: &Name, hash: &str) -> Result<Result<(), Name>, Error> {
    let is_its = context.applies.get(name).is_some_and(|own| says(context, &own, hash));
    // Who has built on it gives way to nobody who only could.
    let has_built = is_its && context.has_begun(name).await?;
    let mut others = context.applies.names_by(&[Key::Backend(hash.to_owned())]);
    // What this process wrote a moment ago, the cache may not show yet.
    others.extend(context.apply_status.wrote(|status| status.backend_hash.as_deref() == Some(hash)));
    for other in others.into_iter().filter(|other| other != name) {
        if !context.applies.get(&other).is_some_and(|object| says(context, &object, hash)) {
            continue;
        }
        let counts = if other.namespace == name.namespace {
            !has_built || context.has_begun(&other).await?
        } else {
            !has_built && !context.backends.knows(&other) && context.has_begun(&other).await?
        };
        if counts {
            return Ok(Err(other));
        }
    }
    let idle = match context.backends.user(hash).filter(|user| user != name) {
        Some(user) if has_built && !context.has_begun(&user).await? => Some(user),
        _ => None,
    };
    let yields = |user: &Name| !context.applies.has(user) || idle.as_ref() == Some(user);
    Ok(context.backends.take(hash, name, yields))
}

/// Makes every workspace known to the engine that may keep its state in a backend. The engine alone can tell where the state of a module
/// is that has to be fetched first, and after a restart it knows of those only that somebody opened.
pub async fn open_all(context: &WorkspaceContext) -> Result<(), Error> {
    for name in context.applies.names_by(&[Key::AnyBackend]) {
        context.look_at(&name).await?;
    }
    Ok(())
}

/// Returns true if the status of an instance says that it uses a backend.
fn says(context: &WorkspaceContext, object: &WorkspaceTemplateApply, hash: &str) -> bool {
    let status = context.apply_status.current(object, object.status.as_ref());
    status.is_some_and(|status| status.backend_hash.as_deref() == Some(hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_backend_has_one_user() {
        let backends = Backends::default();
        let [a, b] = ["a", "b"].map(|name| Name::new("default", name));
        assert_eq!(backends.take("1", &a, |_| false), Ok(()));
        assert_eq!(backends.take("1", &a, |_| false), Ok(()));
        assert_eq!(backends.take("1", &b, |_| false), Err(a.clone()));
        assert!(backends.knows(&b), "it was resolved, and has none");
        assert_eq!(backends.take("2", &a, |_| false), Ok(()), "it goes elsewhere");
        assert_eq!(backends.take("1", &b, |_| false), Ok(()));
        assert_eq!(backends.take("2", &b, |_| true), Ok(()), "its user is gone");
        assert_eq!(backends.user("1"), None);
        backends.none(&b);
        assert_eq!(backends.take("2", &a, |_| false), Ok(()));
        backends.forget(&b);
        assert!(!backends.knows(&b) && backends.knows(&a));
    }
}
