//! May they: what a request is to RBAC.

use super::{Api, Call};
use crate::rbac::{Object, Resource};
use crate::request::path::{ResourcePath, Target, forbidden_path};
use crate::request::selector::FieldSelector;
use crate::status::ApiError;

/// Whether the server lives is for everybody to know, whatever roles there are.
const ALWAYS: [&str; 3] = ["/healthz", "/livez", "/readyz"];

impl Api {
    /// Refuses what the user may not do.
    pub(super) fn authorize(&self, target: &Target, path: &str, call: &Call<'_>) -> Result<(), ApiError> {
        if call.user.is_master() || ALWAYS.contains(&path) {
            return Ok(());
        }
        if let Target::Resource(resource) = target {
            return self.authorize_resource(resource, call);
        }
        let verb = call.method.as_str().to_lowercase();
        let (rbac, store) = (&self.engine.rbac, &self.engine.store);
        let verdict = rbac.authorize(store, call.user, &verb, &Object::Path(path));
        if verdict.allowed {
            return Ok(());
        }
        Err(forbidden_path(&call.user.name, call.method, path, &verdict.reason))
    }

    fn authorize_resource(&self, path: &ResourcePath, call: &Call<'_>) -> Result<(), ApiError> {
        let watch = call.query.flag("watch").unwrap_or(false);
        // What is no verb is allowed to nobody, and not served to anybody.
        let verb = path.verb(call.method, watch).ok_or(ApiError::MethodNotAllowed)?;
        let named = selected_name(path, call);
        let text = Option::unwrap_or_default;
        let object = Object::Resource(Resource {
            group: &path.version.group,
            plural: &path.resource,
            subresource: text(path.subresource.as_deref()),
            name: text(path.name.as_deref().or(named.as_deref())),
            namespace: text(path.authorization_namespace()),
        });
        let verdict = self.engine.rbac.authorize(&self.engine.store, call.user, verb.as_str(), &object);
        if verdict.allowed {
            return Ok(());
        }
        Err(ResourcePath { name: path.name.clone().or(named), ..path.clone() }.forbidden(
            &call.user.name,
            verb,
            &verdict.reason,
        ))
    }
}

/// A collection of which one name is selected is that object, to rules with names.
fn selected_name(path: &ResourcePath, call: &Call<'_>) -> Option<String> {
    if path.name.is_some() {
        return None;
    }
    let selector = FieldSelector::parse(call.query.text("fieldSelector")?).ok()?;
    selector.exact("metadata.name").filter(|name| !name.is_empty()).map(str::to_owned)
}
