//! What the edge says about a request, up to where a store would be asked.

use std::sync::Arc;

use bytes::Bytes;
use capt_apiserver::{
    request::{
        accept::{self, Endpoint},
        body::{self, DecodedBody},
        delete::DeleteOptions,
        path::{RequestPath, ResourcePath, Verb},
        query::{GetOptions, ListOptions, Query},
        write::{FieldValidation, WriteKind, WriteOptions},
    },
    resource::{Column, Resource, Version},
    status::{ApiError, Cause},
};
use serde_json::Value;

use crate::Sent;

fn version(columns: Vec<Column>, selectable: &[&str]) -> Version {
    Version {
        name: "v1".to_owned(),
        deprecation: None,
        open_api: Value::Null.into(),
        status: true,
        scale: None,
        columns,
        selectable_fields: selectable.iter().map(|field| (*field).to_owned()).collect(),
    }
}

fn resource(group: &str, plural: &str, kind: &str, namespaced: bool, version: Version) -> Resource {
    Resource {
        group: group.to_owned(),
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced,
        verbs: Vec::new(),
        custom: group.contains("example"),
        versions: vec![Arc::new(version)],
        storage_version: "v1".to_owned(),
        stored_versions: Vec::new(),
        defined_at: capt_apiserver::resource::DefinedAt::default(),
        terminating: false,
    }
}

/// What both servers serve.
pub fn resources() -> Vec<Resource> {
    let plain = || version(Vec::new(), &[]);
    let rbac = "rbac.authorization.k8s.io";
    let event = ["involvedObject.kind", "involvedObject.name", "reason", "source", "type"];
    vec![
        resource("", "namespaces", "Namespace", false, version(Vec::new(), &["status.phase"])),
        resource("", "configmaps", "ConfigMap", true, plain()),
        resource("", "secrets", "Secret", true, version(Vec::new(), &["type"])),
        resource("", "serviceaccounts", "ServiceAccount", true, plain()),
        resource("", "nodes", "Node", false, version(Vec::new(), &["spec.unschedulable"])),
        resource("", "events", "Event", true, version(Vec::new(), &event)),
        resource(
            "events.k8s.io",
            "events",
            "Event",
            true,
            version(Vec::new(), &["regarding.name", "reason"]),
        ),
        resource("coordination.k8s.io", "leases", "Lease", true, plain()),
        resource(rbac, "roles", "Role", true, plain()),
        resource(rbac, "rolebindings", "RoleBinding", true, plain()),
        resource(rbac, "clusterroles", "ClusterRole", false, plain()),
        resource(rbac, "clusterrolebindings", "ClusterRoleBinding", false, plain()),
        resource(
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            "CustomResourceDefinition",
            false,
            plain(),
        ),
        resource(
            "edge.example.com",
            "things",
            "Thing",
            true,
            version(crate::output::columns(), &["spec.color", "spec.n", "spec.b"]),
        ),
    ]
}

/// `Ok` where a store would have to be asked.
pub fn answer(sent: &Sent) -> Result<(), ApiError> {
    let (path, raw) = sent.path.split_once('?').unwrap_or((&sent.path, ""));
    match RequestPath::parse(path) {
        RequestPath::Resource(path) => resource_answer(sent, &path, &Query::parse(raw)),
        RequestPath::UnknownResource => Err(ApiError::UnknownResource),
        RequestPath::Unknown => Err(ApiError::PageNotFound),
        RequestPath::CoreVersions | RequestPath::Groups | RequestPath::Version if sent.method != "GET" => {
            Err(ApiError::MethodNotAllowed)
        }
        RequestPath::CoreVersions => {
            accept::negotiate_discovery(sent.header("accept"), Endpoint::BuiltIn).map(drop)
        }
        RequestPath::Groups => accept::negotiate_discovery(sent.header("accept"), Endpoint::Custom).map(drop),
        _ => Ok(()),
    }
}

fn resource_answer(sent: &Sent, path: &ResourcePath, query: &Query) -> Result<(), ApiError> {
    let group = &path.version.group;
    let resources = resources();
    let found = resources.iter().find(|found| {
        let scoped = if found.namespaced {
            path.name.is_none() || path.namespace.is_some()
        } else {
            path.namespace.is_none()
        };
        found.group == *group && found.plural == path.resource && path.version.version == "v1" && scoped
    });
    let Some(resource) = found else {
        let built_in = !group.contains("example") && resources.iter().any(|found| found.group == *group);
        return Err(if built_in { ApiError::UnknownResource } else { ApiError::PageNotFound });
    };
    let endpoint = if resource.custom { Endpoint::Custom } else { Endpoint::BuiltIn };
    let method = sent.method.parse().unwrap();
    let verb = path.verb(&method, query.flag("watch") == Some(true));
    let misplaced = match verb {
        None => true,
        Some(Verb::Create) => path.name.is_some(),
        Some(Verb::Update | Verb::Patch) => path.name.is_none(),
        Some(Verb::DeleteCollection) => path.resource == "namespaces",
        Some(_) => false,
    };
    let Some(verb) = verb.filter(|_| !misplaced || resource.custom) else {
        return Err(ApiError::MethodNotAllowed);
    };
    let patch_type = match verb {
        Verb::Patch => Some(accept::patch_type(sent.header("content-type"), endpoint)?),
        _ => None,
    };
    match verb {
        Verb::List | Verb::Watch => accept::negotiate(sent.header("accept"), endpoint)?,
        _ => accept::negotiate_one(sent.header("accept"), endpoint)?,
    };
    match verb {
        Verb::List | Verb::Watch => read_many(sent, path, query, resource, endpoint),
        Verb::Get => {
            path.check_name()?;
            GetOptions::parse(query).map(drop)
        }
        Verb::Create | Verb::Update => write(
            sent,
            query,
            resource,
            if verb == Verb::Create { WriteKind::Create } else { WriteKind::Update },
        ),
        Verb::Patch => WriteOptions::parse(query, WriteKind::Patch(patch_type.unwrap())).map(drop),
        Verb::Delete | Verb::DeleteCollection => {
            if verb == Verb::DeleteCollection {
                ListOptions::parse(query)?;
            }
            delete(sent, query)
        }
    }
}

fn read_many(
    sent: &Sent,
    path: &ResourcePath,
    query: &Query,
    resource: &Resource,
    endpoint: Endpoint,
) -> Result<(), ApiError> {
    let mut options = ListOptions::parse(query)?;
    let fields = options.fields.check(resource, &resource.versions[0]);
    fields.map_err(|error| ApiError::BadRequest(error.to_string()))?;
    if let Some(name) = &path.name {
        options.only(name)?;
    }
    if options.watch || path.watch {
        options.watch_from()?;
        accept::negotiate_watch(sent.header("accept"), endpoint).map(drop)
    } else {
        options.list_from().map(drop)
    }
}

fn write(sent: &Sent, query: &Query, resource: &Resource, kind: WriteKind) -> Result<(), ApiError> {
    let endpoint = if resource.custom { Endpoint::Custom } else { Endpoint::BuiltIn };
    let format = accept::body_format(sent.header("content-type"), endpoint)?;
    let options = WriteOptions::parse(query, kind)?;
    let bytes = Bytes::copy_from_slice(sent.body.as_bytes());
    let kind_of = (&*resource.group, &*resource.kind);
    let decoded = body::decode_kind(&bytes, format, kind_of);
    let DecodedBody { mut value, repeated } =
        decoded.map_err(|error| error.of_kind(&resource.kind, &bytes))?;
    body::check_kind(&mut value, resource, "v1", &bytes)?;
    let problems = repeated.problems();
    if options.field_validation == FieldValidation::Strict && !problems.is_empty() {
        return Err(body::strict_error(&resource.kind, "v1", &problems));
    }
    if value["metadata"]["name"].is_null() && kind == WriteKind::Create {
        let cause = Cause::required("metadata.name", "name or generateName is required");
        return Err(ApiError::invalid(resource, "", vec![cause]));
    }
    Ok(())
}

fn delete(sent: &Sent, query: &Query) -> Result<(), ApiError> {
    if sent.body.is_empty() {
        return DeleteOptions::from_query(query).map(drop);
    }
    let format = accept::body_format(sent.header("content-type"), Endpoint::BuiltIn)?;
    let bytes = Bytes::copy_from_slice(sent.body.as_bytes());
    let kind = ("", "DeleteOptions");
    let decoded = body::decode_kind(&bytes, format, kind);
    DeleteOptions::from_body(&decoded.map_err(|error| error.of_options())?.value).map(drop)
}
