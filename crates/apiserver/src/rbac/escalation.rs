//! Prevention of privilege escalation: users grant no rights that they do not have.
//!
//! Who writes a role must have every right in it, or the verb `escalate` on the role; who writes a binding must have
//! every right of the role it names, or the verb `bind` on that role. To collect the rules of other roles takes every
//! right there is.

use serde_json::{Value, json};

use super::coverage::{self, Shortfall};
use super::rule::quoted;
use super::{Attributes, GROUP, Parsed, Rbac, ResourceAttributes, RoleRef, Rule};
use crate::authn::User;
use crate::object::Meta;
use crate::resource;
use crate::status::{ApiError, GroupResource, go};
use crate::store::Store;

/// A role or a binding that is about to be written.
pub(crate) struct Grant<'a> {
    pub resource: &'a resource::Resource,
    /// The namespace of the path; empty for none.
    pub namespace: &'a str,
    /// The name of the path; empty for a create.
    pub name: &'a str,
    pub new: &'a Value,
    pub old: Option<&'a Value>,
}

impl Rbac {
    /// Refuses a write that gives rights its author does not have. Anything but roles and bindings passes.
    pub(crate) fn check_grant(&self, store: &Store, user: &User, grant: &Grant<'_>) -> Result<(), ApiError> {
        let Grant { resource, new, old, .. } = *grant;
        if user.is_master() || resource.group != GROUP || resource.custom {
            return Ok(());
        }
        if old.is_some_and(|old| only_for_garbage_collection(new, old)) {
            return Ok(());
        }
        let parsed: Parsed = serde_json::from_value(new.clone()).unwrap_or_default();
        if matches!(resource.plural.as_str(), "roles" | "clusterroles") {
            self.check_role(store, user, grant, &parsed.rules.unwrap_or_default())
        } else {
            self.check_binding(store, user, grant, &parsed.role_ref)
        }
    }

    fn check_role(
        &self,
        store: &Store,
        user: &User,
        grant: &Grant<'_>,
        rules: &[Rule],
    ) -> Result<(), ApiError> {
        let role = Attributes::Resource(ResourceAttributes {
            group: GROUP,
            plural: &grant.resource.plural,
            subresource: "",
            name: grant.name,
            namespace: grant.namespace,
        });
        if self.authorize(store, user, "escalate", &role).allowed {
            return Ok(());
        }
        self.check_rules(store, user, grant, rules)?;
        let aggregates = |role: &Value| {
            role["aggregationRule"]["clusterRoleSelectors"].as_array().is_some_and(|list| !list.is_empty())
        };
        if aggregates(grant.new) || grant.old.is_some_and(aggregates) {
            let everything: Vec<Rule> = serde_json::from_value(json!([
                {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
                {"verbs": ["*"], "nonResourceURLs": ["*"]},
            ]))
            .expect("these are rules");
            let owned = self.rules(store, user, grant.namespace);
            if coverage::check(owned.distinct(), &everything).is_err() {
                let why = "must have cluster-admin privileges to use the aggregationRule";
                return Err(refused(grant, why.to_owned()));
            }
        }
        Ok(())
    }

    fn check_binding(
        &self,
        store: &Store,
        user: &User,
        grant: &Grant<'_>,
        role: &RoleRef,
    ) -> Result<(), ApiError> {
        let plural = match role.kind.as_str() {
            "ClusterRole" => "clusterroles",
            "Role" => "roles",
            // Not valid, and refused as such.
            _ => return Ok(()),
        };
        let bound = Attributes::Resource(ResourceAttributes {
            group: GROUP,
            plural,
            subresource: "",
            name: &role.name,
            namespace: grant.namespace,
        });
        if self.authorize(store, user, "bind", &bound).allowed {
            return Ok(());
        }
        let rules = self.role(store, role, grant.namespace).map_err(|_| ApiError::NotFound {
            resource: GroupResource::of(grant.resource),
            name: role.name.clone(),
        })?;
        self.check_rules(store, user, grant, rules.rules.as_deref().unwrap_or_default())
    }

    fn check_rules(
        &self,
        store: &Store,
        user: &User,
        grant: &Grant<'_>,
        wanted: &[Rule],
    ) -> Result<(), ApiError> {
        let owned = self.rules(store, user, grant.namespace);
        let Err(shortfall) = coverage::check(owned.distinct(), wanted) else { return Ok(()) };
        let who = format!("user {} (groups={})", go::quote(&user.name), quoted(&user.groups));
        let mut why = match shortfall {
            Shortfall::Missing(lines) => format!(
                "{who} is attempting to grant RBAC permissions not currently held:\n{}",
                lines.join("\n")
            ),
            Shortfall::TooMany => format!(
                "{who} is attempting to grant more RBAC permissions than can be compared with those currently held: \
                 split the rules into several roles"
            ),
        };
        if !owned.errors.is_empty() {
            why = format!("{why}; resolution errors: [{}]", super::aggregate(&owned.errors));
        }
        Err(refused(grant, why))
    }
}

fn refused(grant: &Grant<'_>, why: String) -> ApiError {
    ApiError::Forbidden {
        resource: Some(GroupResource::of(grant.resource)),
        name: Meta::of(grant.new).name().unwrap_or_default().to_owned(),
        why,
    }
}

/// Garbage collection must be able to let go of what it may not grant.
fn only_for_garbage_collection(new: &Value, old: &Value) -> bool {
    let stripped = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|name, _| {
                !matches!(
                    name.as_str(),
                    "ownerReferences" | "finalizers" | "managedFields" | "resourceVersion"
                )
            });
        }
        object
    };
    stripped(new) == stripped(old)
}
