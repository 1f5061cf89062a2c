//! The verb of a request as kube-apiserver names it, for metrics and the audit log.

use http::{Method, Uri};

/// A verb of the API, or the method of a request that is not about resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RecordedVerb {
    Create,
    Delete,
    DeleteCollection,
    Get,
    Head,
    List,
    /// Any method nothing is served for: one name, so that no client can make more of them.
    Other,
    Patch,
    Post,
    Put,
    Update,
    Watch,
}

impl RecordedVerb {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Get => "get",
            Self::Head => "head",
            Self::List => "list",
            Self::Other => "other",
            Self::Patch => "patch",
            Self::Post => "post",
            Self::Put => "put",
            Self::Update => "update",
            Self::Watch => "watch",
        }
    }

    /// Of `/api/{version}/...` and `/apis/{group}/{version}/...`; other paths keep their method.
    pub fn of(method: &Method, uri: &Uri) -> Self {
        let mut parts = uri.path().split('/').filter(|part| !part.is_empty());
        let ahead = match parts.next() {
            Some("api") => 1,
            Some("apis") => 2,
            _ => return Self::plain(method),
        };
        let parts: Vec<_> = parts.skip(ahead).take(5).collect();
        let parts = match &parts[..] {
            [] => return Self::plain(method),
            ["watch", _, ..] => return Self::Watch,
            ["namespaces", _, "status" | "finalize", ..] => &parts[..],
            ["namespaces", _, inner @ ..] if !inner.is_empty() => inner,
            parts => parts,
        };
        let named = parts.len() > 1;
        match *method {
            Method::GET | Method::HEAD if named => Self::Get,
            Method::GET | Method::HEAD if wants_watch(uri.query().unwrap_or_default()) => Self::Watch,
            Method::GET | Method::HEAD => Self::List,
            Method::POST => Self::Create,
            Method::PUT => Self::Update,
            Method::PATCH => Self::Patch,
            Method::DELETE if named => Self::Delete,
            Method::DELETE => Self::DeleteCollection,
            _ => Self::Other,
        }
    }

    const fn plain(method: &Method) -> Self {
        match *method {
            Method::GET => Self::Get,
            Method::HEAD => Self::Head,
            Method::POST => Self::Post,
            Method::PUT => Self::Put,
            Method::PATCH => Self::Patch,
            Method::DELETE => Self::Delete,
            _ => Self::Other,
        }
    }
}

/// `group/resource[/subresource]` of a path; empty for other paths.
pub(super) fn resource_of(uri: &Uri) -> String {
    let parts: Vec<&str> = uri.path().split('/').filter(|part| !part.is_empty()).take(9).collect();
    let (group, inner) = match &parts[..] {
        ["api", _, inner @ ..] => ("", inner),
        ["apis", group, _, inner @ ..] => (*group, inner),
        _ => return String::new(),
    };
    let inner = inner.strip_prefix(&["watch"]).unwrap_or(inner);
    let inner = match inner {
        ["namespaces", _, sub, ..] if matches!(*sub, "status" | "finalize") => inner,
        ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
        _ => inner,
    };
    match inner {
        [] => String::new(),
        [resource] | [resource, _] => format!("{group}/{resource}"),
        [resource, _, subresource, ..] => format!("{group}/{resource}/{subresource}"),
    }
}

/// Everything but `false` and `0` is true, as in kube-apiserver.
fn wants_watch(query: &str) -> bool {
    query
        .split('&')
        .find_map(|pair| {
            (pair.split('=').next() == Some("watch")).then(|| pair.split_once('=').map_or("", |(_, v)| v))
        })
        .is_some_and(|value| !value.eq_ignore_ascii_case("false") && value != "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_named_without_objects() {
        for (uri, resource) in [
            ("/livez", ""),
            ("/apis/apps/v1", ""),
            ("/api/v1/namespaces", "/namespaces"),
            ("/api/v1/namespaces/a", "/namespaces"),
            ("/api/v1/namespaces/a/finalize", "/namespaces/finalize"),
            ("/api/v1/namespaces/a/secrets/b?watch=1", "/secrets"),
            ("/api/v1/watch/secrets", "/secrets"),
            ("/apis/g/v1/namespaces/a/things/b/scale", "g/things/scale"),
        ] {
            assert_eq!(resource_of(&uri.parse().unwrap()), resource, "{uri}");
        }
    }

    #[test]
    fn verbs_are_those_of_kubernetes() {
        for (method, uri, verb) in [
            ("GET", "/livez", "get"),
            ("GET", "/apis/apps/v1", "get"),
            ("POST", "/version", "post"),
            ("TRACE", "/version", "other"),
            ("GET", "/api/v1/namespaces", "list"),
            ("GET", "/api/v1/namespaces/a", "get"),
            ("PUT", "/api/v1/namespaces/a/finalize", "update"),
            ("GET", "/api/v1/namespaces/a/status", "get"),
            ("GET", "/api/v1/namespaces/a/secrets", "list"),
            ("GET", "/api/v1/namespaces/a/secrets?watch=true&x=1", "watch"),
            ("GET", "/api/v1/namespaces/a/secrets?x=1&watch", "watch"),
            ("GET", "/api/v1/namespaces/a/secrets?watch=0", "list"),
            ("GET", "/api/v1/namespaces/a/secrets/b?watch=1", "get"),
            ("GET", "/api/v1/watch/secrets", "watch"),
            ("POST", "/apis/g/v1/namespaces/a/things", "create"),
            ("PATCH", "/apis/g/v1/namespaces/a/things/b/status", "patch"),
            ("DELETE", "/apis/g/v1/things", "deletecollection"),
            ("DELETE", "/apis/g/v1/things/b", "delete"),
        ] {
            let found = RecordedVerb::of(&method.parse().unwrap(), &uri.parse().unwrap());
            assert_eq!(found.as_str(), verb, "{method} {uri}");
        }
    }
}
