//! Who uses which backend: two workspaces with one state would destroy each other's infrastructure.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use capt_api::workspace::WorkspaceTemplateApply;

use super::super::context::Context;
use crate::runtime::Name;
use crate::runtime::cache::Key;

/// Backends that instances use, by the hash of what names them. Statuses tell what was before this process.
#[derive(Debug, Default)]
pub struct Backends(Mutex<HashMap<String, Name>>);

impl Backends {
    /// Takes a backend for an instance; refused with the one that has it. `lives`: whether an instance is still there.
    fn take(&self, hash: &str, name: &Name, lives: impl Fn(&Name) -> bool) -> Result<(), Name> {
        let mut users = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(user) = users.get(hash).filter(|user| *user != name && lives(user)) {
            return Err(user.clone());
        }
        users.retain(|_, user| user != name);
        users.insert(hash.to_owned(), name.clone());
        Ok(())
    }

    /// Drops those of an instance that is gone, or has none any more.
    pub fn forget(&self, name: &Name) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, user| user != name);
    }
}

/// Takes the backend with this hash for an instance; refused with the one that has it.
pub fn take(context: &Context, name: &Name, hash: &str) -> Result<(), Name> {
    let uses = |other: &WorkspaceTemplateApply| {
        let status = context.apply_status.current(other, other.status.as_ref());
        status.is_some_and(|status| status.backend_hash.as_deref() == Some(hash))
    };
    let mut others = context.applies.names_by(&[Key::Backend(hash.to_owned())]);
    // What this process wrote a moment ago, the cache may not show yet.
    others.extend(context.apply_status.wrote(|status| status.backend_hash.as_deref() == Some(hash)));
    let user = others
        .into_iter()
        .find(|other| other != name && context.applies.get(other).is_some_and(|other| uses(&other)));
    match user {
        Some(user) => Err(user),
        None => context.backends.take(hash, name, |user| context.applies.has(user)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_backend_has_one_user() {
        let backends = Backends::default();
        let [a, b] = ["a", "b"].map(|name| Name::new("default", name));
        assert_eq!(backends.take("1", &a, |_| true), Ok(()));
        assert_eq!(backends.take("1", &a, |_| true), Ok(()));
        assert_eq!(backends.take("1", &b, |_| true), Err(a.clone()));
        assert_eq!(backends.take("2", &a, |_| true), Ok(()), "it goes elsewhere");
        assert_eq!(backends.take("1", &b, |_| true), Ok(()));
        assert_eq!(backends.take("2", &b, |_| false), Ok(()), "its user is gone");
        backends.forget(&b);
        assert_eq!(backends.take("2", &a, |_| true), Ok(()));
    }
}
