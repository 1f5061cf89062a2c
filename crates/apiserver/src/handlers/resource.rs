//! Requests on resources: which verb, on what, with which options.

use std::sync::{Arc, LazyLock};

use http::{Response, StatusCode, header};
use serde_json::Value;

use super::answer::{self, endpoint};
use super::{Api, Body, Call};
use crate::control;
use crate::registry::{Catalogue, Served};
use crate::request::accept::{self, BodyFormat, Endpoint, Format, PatchType};
use crate::request::body::{self, Decoded, Repeated};
use crate::request::delete::DeleteOptions;
use crate::request::path::{ResourcePath, Verb};
use crate::request::query::{GetOptions, ListOptions};
use crate::request::write::{FieldValidation, Write, WriteOptions};
use crate::secure_serving::Shares;
use crate::status::{self, ApiError, GroupResource};
use crate::storage::{Change, Listed, PatchBody, Target, Written};

/// Collections of one user that are deleted at once: each takes the names of all that is in it.
static COLLECTIONS: LazyLock<Arc<Shares>> = LazyLock::new(|| Shares::of_each(4));

impl Api {
    /// Answers a request on a resource.
    pub(super) async fn resource(
        self: &Arc<Self>,
        path: &ResourcePath,
        call: &Call<'_>,
    ) -> Result<Response<Body>, ApiError> {
        let catalogue = self.storage.registry.current();
        let nothing = || nothing_there(&catalogue, &path.version.group);
        let served = catalogue.find(&path.version.group, &path.version.version, &path.resource);
        let served = served.ok_or_else(nothing)?;
        if let Some(deprecation) = &served.version.deprecation {
            call.warnings.add(deprecation.clone());
        }
        // The name of a replacement is compared first with that of its body.
        if call.method != http::Method::PUT {
            path.check_name()?;
        }
        if let (Some("finalize"), "namespaces", "") =
            (path.subresource.as_deref(), &*path.resource, &*path.version.group)
        {
            return self.finalize(served, path.name.as_deref(), call).await;
        }
        let (status, scale) = match path.subresource.as_deref() {
            None => (false, false),
            Some("status") if served.version.status => (true, false),
            Some("scale") if served.version.scale.is_some() => (false, true),
            Some(_) => match &path.name {
                Some(name) if served.resource.custom => {
                    return Err(ApiError::not_found(&served.resource, name));
                }
                _ => return Err(nothing()),
            },
        };
        if path.namespace.is_some() != served.resource.namespaced
            && (path.name.is_some() || path.namespace.is_some())
        {
            return Err(nothing());
        }
        // Over all namespaces objects are read, and nothing else: an object that is made there would be in none.
        let reads = matches!(call.method, &http::Method::GET | &http::Method::HEAD);
        if served.resource.namespaced && path.namespace.is_none() && !reads {
            return Err(if served.resource.custom { nothing() } else { ApiError::MethodNotAllowed });
        }
        let target = Target { served: Arc::clone(served), namespace: path.namespace.clone(), status };
        let watch = call.query.flag("watch").unwrap_or(false);
        let verb = path.verb(call.method, watch);
        let verb = verb.filter(|verb| served.resource.verbs.contains(&verb.as_str()));
        let verb = verb.ok_or_else(|| not_allowed(served, ""))?;
        let misplaced = match verb {
            Verb::Create => path.name.is_some(),
            Verb::Update | Verb::Patch => path.name.is_none(),
            _ => call.method == http::Method::HEAD,
        };
        if misplaced && !served.resource.custom {
            return Err(ApiError::MethodNotAllowed);
        }
        if verb == Verb::Patch {
            accept::patch_type(call.header(header::CONTENT_TYPE), endpoint(served))?;
        }
        let accepted = call.header(header::ACCEPT);
        match verb {
            Verb::Watch => {}
            Verb::List => drop(accept::negotiate(accepted, endpoint(served))?),
            _ => drop(accept::negotiate_one(accepted, endpoint(served))?),
        }
        let answer = match &path.name {
            Some(name) if scale => self.scale(verb, &target, name, call).await,
            name => self.verb(verb, &target, name.as_deref(), call).await,
        };
        // Whoever made a definition can use it at once, without waiting for it to be established.
        let defines = matches!(verb, Verb::Create | Verb::Update | Verb::Patch)
            && served.resource.kind == "CustomResourceDefinition"
            && !served.resource.custom;
        if defines && answer.is_ok() && call.query.get("dryRun").is_none() {
            control::refreshed(&self.storage).await;
        }
        answer
    }

    /// `/finalize` of a namespace: the one way to change the finalizers in its spec.
    async fn finalize(
        &self,
        served: &Arc<Served>,
        name: Option<&str>,
        call: &Call<'_>,
    ) -> Result<Response<Body>, ApiError> {
        let target = Target { served: Arc::clone(served), namespace: None, status: false };
        let name = name.filter(|_| call.method == http::Method::PUT).ok_or(ApiError::MethodNotAllowed)?;
        // Agreed on before anything is done.
        accept::negotiate_untabled(call.header(header::ACCEPT), Endpoint::BuiltIn)?;
        let mut options = call.write_options(Write::Update)?;
        let body = Self::body(&target, call, &mut options)?;
        let namespace = self.storage.finalize_as(&target, name, body, &options).await?;
        answer::untabled(&served.resource, call, StatusCode::OK, &namespace)
    }

    /// Requests on `/scale`.
    async fn scale(
        &self,
        verb: Verb,
        target: &Target,
        name: &str,
        call: &Call<'_>,
    ) -> Result<Response<Body>, ApiError> {
        let (change, write) = match verb {
            Verb::Get => return answer::scale(&target.served, call, &self.storage.scale(target, name)?),
            Verb::Update => {
                let format =
                    accept::body_format(call.header(header::CONTENT_TYPE), endpoint(&target.served))?;
                let decoded =
                    body::decode_kind(call.body, format, ("autoscaling", "Scale"), super::read_yaml);
                let body = decoded.map_err(|error| error.of_kind("Scale", call.body))?.value;
                if let Some(other) = body["metadata"]["name"].as_str().filter(|other| *other != name) {
                    return Err(ApiError::BadRequest(format!(
                        "the name of the object ({other}) does not match the name on the URL ({name})"
                    )));
                }
                (Change::Replace(body), Write::Update)
            }
            Verb::Patch => {
                let kind = accept::patch_type(call.header(header::CONTENT_TYPE), endpoint(&target.served))?;
                (Change::Patch(patch_body(kind, call)?.0), Write::Patch(kind))
            }
            Verb::List | Verb::Watch | Verb::Create | Verb::Delete | Verb::DeleteCollection => {
                return Err(not_allowed(&target.served, verb.as_str()));
            }
        };
        let options = call.write_options(write)?;
        let manager = options.manager(call.user_agent());
        let scale = self.storage.change_scale(target, name, &change, &options, &manager).await?;
        answer::scale(&target.served, call, &scale)
    }

    async fn verb(
        self: &Arc<Self>,
        verb: Verb,
        target: &Target,
        name: Option<&str>,
        call: &Call<'_>,
    ) -> Result<Response<Body>, ApiError> {
        match (verb, name) {
            (Verb::Get, Some(name)) => {
                if let Some(wanted) = GetOptions::parse(&call.query)?.not_older_than {
                    self.storage.reach(target, wanted).await?;
                }
                answer::stored(target, call, self.storage.find(target, name)?)
            }
            (Verb::List, _) => {
                let options = Self::list_options(target, call)?;
                self.storage.reach_list(target, &options).await?;
                answer::list(target, call, self.storage.list(target, &options)?)
            }
            (Verb::Watch, name) => {
                let mut options = Self::list_options(target, call)?;
                if let Some(name) = name {
                    options.only(name)?;
                }
                self.watch(target, options, call).await
            }
            // A router would refuse a name here; custom resources have none, and nobody looks at it.
            (Verb::Create, _) if !target.status => self.create(target, call).await,
            (Verb::Update | Verb::Patch, None) => Err(ApiError::BadRequest("name must be provided".into())),
            (Verb::Update, Some(name)) => self.update(target, name, call).await,
            (Verb::Patch, Some(name)) => self.patch(target, name, call).await,
            (Verb::Delete, Some(name)) if !target.status => {
                let options = delete_options(call)?;
                let answer = self.storage.delete(target, name, &options).await?;
                // The older way to ask for dependents to go first is answered as it always was.
                let waits = answer["metadata"].get("deletionTimestamp").is_some();
                let accepted = waits && options.orphan_dependents == Some(false);
                let code = if accepted { StatusCode::ACCEPTED } else { StatusCode::OK };
                answer::object(&target.served, call, code, &answer)
            }
            (Verb::DeleteCollection, None) => self.delete_collection(target, call).await,
            (verb, _) => Err(not_allowed(&target.served, verb.as_str())),
        }
    }

    fn list_options(target: &Target, call: &Call<'_>) -> Result<ListOptions, ApiError> {
        let options = ListOptions::parse(&call.query)?;
        let known = options.fields.check(&target.served.resource, &target.served.version);
        known.map_err(|error| ApiError::BadRequest(error.to_string()))?;
        Ok(options)
    }

    async fn create(&self, target: &Target, call: &Call<'_>) -> Result<Response<Body>, ApiError> {
        let mut options = call.write_options(Write::Create)?;
        let object = Self::body(target, call, &mut options)?;
        let manager = options.manager(call.user_agent());
        let written = self.storage.create(target, object, &options, &manager).await?;
        Self::written(target, call, &written)
    }

    async fn update(&self, target: &Target, name: &str, call: &Call<'_>) -> Result<Response<Body>, ApiError> {
        let mut options = call.write_options(Write::Update)?;
        let object = Self::body(target, call, &mut options)?;
        let manager = options.manager(call.user_agent());
        let written = self.storage.change(target, name, &Change::Replace(object), &options, &manager).await?;
        Self::written(target, call, &written)
    }

    async fn patch(&self, target: &Target, name: &str, call: &Call<'_>) -> Result<Response<Body>, ApiError> {
        let kind = accept::patch_type(call.header(header::CONTENT_TYPE), endpoint(&target.served))?;
        let mut options = call.write_options(Write::Patch(kind))?;
        let (body, repeated) = patch_body(kind, call).or_else(|error| {
            // Nobody reads a patch of what is not there, except one that would make it.
            if kind != PatchType::Apply {
                self.storage.get(target, name)?;
            }
            Err(error)
        })?;
        options.repeated = repeated;
        let manager = options.manager(call.user_agent());
        let written = self.storage.change(target, name, &Change::Patch(body), &options, &manager).await?;
        Self::written(target, call, &written)
    }

    async fn delete_collection(&self, target: &Target, call: &Call<'_>) -> Result<Response<Body>, ApiError> {
        let list = Self::list_options(target, call)?;
        let options = delete_options(call)?;
        let _turn = COLLECTIONS.take(call.payer, 1).ok_or_else(ApiError::busy)?;
        let mut listed = self.storage.list(target, &list)?;
        let keys = listed.keys();
        let kept = call.keep(std::mem::take(&mut listed.items));
        self.storage.delete_each(target, keys, &options).await?;
        match kept.all() {
            Some(items) => answer::list(target, call, Listed { items, ..listed }),
            // Of a list without all of its items nobody would know that everything was deleted.
            None => answer::object(&target.served, call, StatusCode::OK, &status::done()),
        }
    }

    /// The object that a request brings.
    fn body(target: &Target, call: &Call<'_>, options: &mut WriteOptions) -> Result<Value, ApiError> {
        let served = &target.served;
        let format = accept::body_format(call.header(header::CONTENT_TYPE), endpoint(served))?;
        let kind = (&*served.resource.group, &*served.resource.kind);
        let decoded = body::decode_kind(call.body, format, kind, super::read_yaml);
        let mut decoded = decoded.map_err(|error| error.of_kind(&served.resource.kind, call.body))?;
        let kind = &served.resource.kind;
        let value = decoded.value.clone();
        body::check_kind(&mut decoded.value, &served.resource, &served.version.name, call.body).map_err(
            |error| match &error {
                // Whoever does not care for fields is read by another reader, with other words.
                ApiError::BadRequest(text) if options.field_validation == FieldValidation::Ignore => {
                    if !text.contains("Object 'Kind' is missing in '") {
                        return error;
                    }
                    let body = match format {
                        BodyFormat::Text(Format::Json) | BodyFormat::Protobuf => {
                            String::from_utf8_lossy(call.body).into_owned()
                        }
                        BodyFormat::Text(Format::Yaml) => value.to_string(),
                    };
                    let missing = format!("Object 'Kind' is missing in '{body}'");
                    let version = &served.version.name;
                    ApiError::BadRequest(format!(
                        "{kind} in version \"{version}\" cannot be handled as a {kind}: {missing}"
                    ))
                }
                _ => error,
            },
        )?;
        options.repeated = decoded.repeated;
        Ok(decoded.value)
    }

    fn written(target: &Target, call: &Call<'_>, written: &Written) -> Result<Response<Body>, ApiError> {
        let code = if written.created { StatusCode::CREATED } else { StatusCode::OK };
        answer::written(&target.served, call, code, &written.object)
    }
}

/// The router of built-in resources refuses a method, custom ones refuse a verb.
fn not_allowed(served: &Served, verb: &str) -> ApiError {
    if served.resource.custom {
        ApiError::VerbNotSupported { resource: GroupResource::of(&served.resource), verb: verb.to_owned() }
    } else {
        ApiError::MethodNotAllowed
    }
}

/// Groups that are built in have a router that says so; elsewhere nobody is asked.
fn nothing_there(catalogue: &Catalogue, group: &str) -> ApiError {
    let mut resources = catalogue.resources().iter();
    if resources.any(|resource| !resource.custom && resource.group == group) {
        ApiError::UnknownResource
    } else {
        ApiError::PageNotFound
    }
}

fn patch_body(kind: PatchType, call: &Call<'_>) -> Result<(PatchBody, Repeated), ApiError> {
    let decoded = body::decode(call.body, kind.format(), super::read_yaml);
    let Decoded { value, repeated } = decoded.map_err(|error| error.of_patch())?;
    let body = match kind {
        PatchType::Json => PatchBody::Json(value),
        PatchType::Merge => PatchBody::Merge(value),
        PatchType::Strategic => PatchBody::Strategic(value),
        PatchType::Apply => PatchBody::Apply(value),
    };
    Ok((body, repeated))
}

fn delete_options(call: &Call<'_>) -> Result<DeleteOptions, ApiError> {
    if call.body.is_empty() {
        return DeleteOptions::from_query(&call.query);
    }
    // Options are a built-in kind, whatever is deleted.
    let format = accept::body_format(call.header(header::CONTENT_TYPE), Endpoint::BuiltIn)?;
    let decoded = body::decode_kind(call.body, format, ("", "DeleteOptions"), super::read_yaml);
    let options = DeleteOptions::from_body(&decoded.map_err(|error| error.of_options())?.value);
    // A whole collection may go now, one object after the other.
    call.is_decoded();
    options
}
