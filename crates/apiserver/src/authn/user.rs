//! Users and the groups that the server knows them by.

use std::collections::BTreeMap;

/// The administrator's name and group, as kubeadm's first administrator.
pub(crate) const ADMIN: &str = "kubernetes-admin";
pub(crate) const MASTERS: &str = "system:masters";
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
pub(crate) const ANONYMOUS: &str = "system:anonymous";

/// An authenticated user, or the anonymous one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name, as RBAC's subjects of kind `User`.
    pub name: String,
    /// The groups, as RBAC's subjects of kind `Group`.
    pub groups: Vec<String>,
    /// Known only of an impersonated user, and of a service account.
    pub uid: Option<String>,
    /// Further attributes; nothing here decides by them.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// The administrator of this server.
    pub fn admin() -> Self {
        Self::known(ADMIN.to_owned(), vec![MASTERS.to_owned()])
    }

    /// The anonymous user.
    pub fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            uid: None,
            extra: BTreeMap::new(),
        }
    }

    /// A user of this name, in these groups and that of all who are known.
    pub(crate) fn known(name: String, mut groups: Vec<String>) -> Self {
        if !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        Self { name, groups, uid: None, extra: BTreeMap::new() }
    }

    /// Returns whether this is the anonymous user.
    pub fn is_anonymous(&self) -> bool {
        self.name == ANONYMOUS
    }

    /// The part of a user that budgets keep: groups may be many.
    #[must_use]
    pub fn in_budgets(&self) -> Self {
        let groups = if self.is_master() { vec![MASTERS.to_owned()] } else { Vec::new() };
        Self::known(self.name.clone(), groups)
    }

    /// Returns whether this is an administrator, who may do everything.
    pub fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }
}
