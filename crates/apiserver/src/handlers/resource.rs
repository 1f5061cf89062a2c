//! Routes a request on a resource to the handler of its verb.

use std::sync::Arc;

use http::{Method, Response, header};

use super::list::list_options;
use super::response::endpoint;
use super::{Api, Body, Call};
use crate::control;
use crate::registry::{Catalogue, Served};
use crate::request::accept;
use crate::request::path::{ResourcePath, Verb};
use crate::status::{ApiError, GroupResource};
use crate::storage::Target;

/// The part of an object that a path names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Subresource {
    None,
    Status,
    Scale,
}

impl Api {
    /// Answers a request on a resource.
    pub(super) async fn resource(
        self: &Arc<Self>,
        path: &ResourcePath,
        call: &Call<'_>,
    ) -> Result<Response<Body>, ApiError> {
        let catalogue = self.storage.registry.current();
        let served = catalogue.find(&path.version.group, &path.version.version, &path.resource);
        let served = served.ok_or_else(|| not_served(&catalogue, path))?;
        if let Some(deprecation) = &served.version.deprecation {
            call.warnings.add(deprecation.clone());
        }
        // An update compares the name with that of its body before it checks either.
        if call.method != Method::PUT {
            path.check_name()?;
        }
        if let (Some("finalize"), "namespaces", "") =
            (path.subresource.as_deref(), &*path.resource, &*path.version.group)
        {
            return self.finalize(served, path.name.as_deref(), call).await;
        }
        let subresource = subresource(&catalogue, served, path)?;
        check_scope(&catalogue, served, path, call.method)?;
        let verb = verb(served, path, call)?;
        negotiate(served, verb, call)?;
        let status = subresource == Subresource::Status;
        let target = Target { served: Arc::clone(served), namespace: path.namespace.clone(), status };
        let response = match &path.name {
            Some(name) if subresource == Subresource::Scale => self.scale(verb, &target, name, call).await,
            name => self.verb(verb, &target, name.as_deref(), call).await,
        };
        // The client that wrote a definition can use it at once, without waiting for it to be established.
        let defines = matches!(verb, Verb::Create | Verb::Update | Verb::Patch)
            && served.resource.kind == "CustomResourceDefinition"
            && !served.resource.custom;
        if defines && response.is_ok() && call.query.get("dryRun").is_none() {
            control::refreshed(&self.storage).await;
        }
        response
    }

    async fn verb(
        self: &Arc<Self>,
        verb: Verb,
        target: &Target,
        name: Option<&str>,
        call: &Call<'_>,
    ) -> Result<Response<Body>, ApiError> {
        match (verb, name) {
            (Verb::Get, Some(name)) => self.get(target, name, call).await,
            (Verb::List, _) => self.list(target, call).await,
            (Verb::Watch, name) => {
                let mut options = list_options(target, call)?;
                if let Some(name) = name {
                    options.only(name)?;
                }
                self.watch(target, options, call).await
            }
            // Custom resources ignore the name in the path of a create.
            (Verb::Create, _) if !target.status => self.create(target, call).await,
            (Verb::Update | Verb::Patch, None) => Err(ApiError::BadRequest("name must be provided".into())),
            (Verb::Update, Some(name)) => self.update(target, name, call).await,
            (Verb::Patch, Some(name)) => self.patch(target, name, call).await,
            (Verb::Delete, Some(name)) if !target.status => self.delete(target, name, call).await,
            (Verb::DeleteCollection, None) => self.delete_collection(target, call).await,
            (verb, _) => Err(not_allowed(&target.served, verb.as_str())),
        }
    }
}

fn subresource(catalogue: &Catalogue, served: &Served, path: &ResourcePath) -> Result<Subresource, ApiError> {
    match path.subresource.as_deref() {
        None => Ok(Subresource::None),
        Some("status") if served.version.status => Ok(Subresource::Status),
        Some("scale") if served.version.scale.is_some() => Ok(Subresource::Scale),
        Some(_) => match &path.name {
            Some(name) if served.resource.custom => Err(ApiError::not_found(&served.resource, name)),
            _ => Err(not_served(catalogue, path)),
        },
    }
}

/// Checks that the path has a namespace exactly where the resource is namespaced; reads may span all namespaces.
fn check_scope(
    catalogue: &Catalogue,
    served: &Served,
    path: &ResourcePath,
    method: &Method,
) -> Result<(), ApiError> {
    if path.namespace.is_some() != served.resource.namespaced
        && (path.name.is_some() || path.namespace.is_some())
    {
        return Err(not_served(catalogue, path));
    }
    let is_read = [Method::GET, Method::HEAD].contains(method);
    if served.resource.namespaced && path.namespace.is_none() && !is_read {
        return Err(if served.resource.custom {
            not_served(catalogue, path)
        } else {
            ApiError::MethodNotAllowed
        });
    }
    Ok(())
}

/// The verb of a request, if the resource supports it at this path.
fn verb(served: &Served, path: &ResourcePath, call: &Call<'_>) -> Result<Verb, ApiError> {
    let watch = call.query.flag("watch").unwrap_or(false);
    let verb = path.verb(call.method, watch);
    let verb = verb.filter(|verb| served.resource.verbs.contains(&verb.as_str()));
    let verb = verb.ok_or_else(|| not_allowed(served, ""))?;
    let misplaced = match verb {
        Verb::Create => path.name.is_some(),
        Verb::Update | Verb::Patch => path.name.is_none(),
        _ => call.method == Method::HEAD,
    };
    if misplaced && !served.resource.custom {
        return Err(ApiError::MethodNotAllowed);
    }
    Ok(verb)
}

/// Negotiates content before anything is done; a watch negotiates for itself.
fn negotiate(served: &Served, verb: Verb, call: &Call<'_>) -> Result<(), ApiError> {
    if verb == Verb::Patch {
        accept::patch_type(call.header(header::CONTENT_TYPE), endpoint(served))?;
    }
    let accepted = call.header(header::ACCEPT);
    match verb {
        Verb::Watch => {}
        Verb::List => drop(accept::negotiate(accepted, endpoint(served))?),
        _ => drop(accept::negotiate_one(accepted, endpoint(served))?),
    }
    Ok(())
}

/// The error for a verb that the resource does not support: for built-in resources it names the HTTP method.
pub(super) fn not_allowed(served: &Served, verb: &str) -> ApiError {
    if served.resource.custom {
        ApiError::VerbNotSupported { resource: GroupResource::of(&served.resource), verb: verb.to_owned() }
    } else {
        ApiError::MethodNotAllowed
    }
}

/// The error for a path that is not served: a `Status` in the groups of built-in resources, plain text elsewhere.
fn not_served(catalogue: &Catalogue, path: &ResourcePath) -> ApiError {
    let mut resources = catalogue.resources().iter();
    if resources.any(|resource| !resource.custom && resource.group == path.version.group) {
        ApiError::UnknownResource
    } else {
        ApiError::PageNotFound
    }
}
