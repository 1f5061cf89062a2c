//! RBAC authorization of requests.

use super::{Api, Call};
use crate::rbac::{Attributes, ResourceAttributes};
use crate::request::path::{RequestPath, ResourcePath, Verb, forbidden_path};
use crate::request::selector::FieldSelector;
use crate::status::ApiError;

/// Paths that every user may read, whatever roles there are.
const PUBLIC: [&str; 3] = ["/healthz", "/livez", "/readyz"];

impl Api {
    /// Refuses a request that the roles of its user do not allow.
    pub(super) fn authorize(
        &self,
        target: &RequestPath,
        path: &str,
        call: &Call<'_>,
    ) -> Result<(), ApiError> {
        if call.user.is_master() || PUBLIC.contains(&path) {
            return Ok(());
        }
        if let RequestPath::Resource(resource) = target {
            return self.authorize_resource(resource, call);
        }
        let verb = call.method.as_str().to_lowercase();
        let (rbac, store) = (&self.storage.rbac, &self.storage.store);
        let verdict = rbac.authorize(store, call.user, &verb, &Attributes::Path(path));
        if verdict.allowed {
            return Ok(());
        }
        Err(forbidden_path(&call.user.name, call.method, path, &verdict.reason))
    }

    fn authorize_resource(&self, path: &ResourcePath, call: &Call<'_>) -> Result<(), ApiError> {
        let watch = call.query.flag("watch").unwrap_or(false);
        // A method without a verb is not served to anyone.
        let verb = path.verb(call.method, watch).ok_or(ApiError::MethodNotAllowed)?;
        let named = selected_name(path, verb, call);
        let text = Option::unwrap_or_default;
        let object = Attributes::Resource(ResourceAttributes {
            group: &path.version.group,
            plural: &path.resource,
            subresource: text(path.subresource.as_deref()),
            name: text(path.name.as_deref().or(named.as_deref())),
            namespace: text(path.authorization_namespace()),
        });
        let verdict = self.storage.rbac.authorize(&self.storage.store, call.user, verb.as_str(), &object);
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

/// The name that the field selector of a list or a watch selects: rules with resource names allow it like a request for that
/// object. Other verbs ignore the selector, so it must not authorize them.
fn selected_name(path: &ResourcePath, verb: Verb, call: &Call<'_>) -> Option<String> {
    // As in kube-apiserver, not for the deprecated `/watch/` paths.
    if path.name.is_some() || path.watch || !matches!(verb, Verb::List | Verb::Watch) {
        return None;
    }
    let selector = FieldSelector::parse(call.query.text("fieldSelector")?).ok()?;
    selector.exact("metadata.name").filter(|name| !name.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::Request;
    use serde_json::{Value, json};

    use crate::Server;
    use crate::authn::User;

    async fn ask(server: &Server, user: &User, method: &str, path: &str, body: &Value) -> u16 {
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let request = request.body(Bytes::from(body.to_string())).unwrap();
        server.api().respond(user, request).await.status().as_u16()
    }

    /// Who may write definitions and bindings, but not give rights away, would write bindings of a kind of their own to where rights
    /// are read from; and a definition that goes takes the objects of its kind along.
    #[tokio::test]
    async fn no_definition_takes_the_place_of_what_is_built_in() {
        let server = Server::in_memory().await.unwrap();
        let admin = User::admin();
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
        let binding = json!({
            "metadata": {"name": "eve"}, "subjects": [{"kind": "User", "name": "eve"}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        });
        assert_eq!(ask(&server, &admin, "POST", bindings, &binding).await, 201);
        for (group, plural, kind, version) in [
            ("rbac.authorization.k8s.io", "clusterrolebindings", "Evil", "v1"),
            ("rbac.authorization.k8s.io", "clusterrolebindings", "Evil", "v2"),
            ("rbac.authorization.k8s.io", "others", "ClusterRoleBinding", "v1"),
            ("events.k8s.io", "secrets", "Evil", "v1"),
            ("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview", "v1"),
            ("apiextensions.k8s.io", "customresourcedefinitions", "Evil", "v2"),
        ] {
            let name = format!("{plural}.{group}");
            let schema =
                json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
            let crd = json!({
                "metadata": {"name": name, "annotations": {"api-approved.kubernetes.io": "unapproved, test"}},
                "spec": {
                    "group": group, "scope": "Cluster", "names": {"plural": plural, "kind": kind},
                    "versions": [{"name": version, "served": true, "storage": true, "schema": schema}],
                },
            });
            assert_eq!(ask(&server, &admin, "POST", crds, &crd).await, 422, "{name}");
        }
        assert_eq!(ask(&server, &admin, "GET", &format!("{bindings}/eve"), &json!({})).await, 200);
    }

    #[tokio::test]
    async fn a_selector_names_what_is_read_and_nothing_else() {
        let server = Server::in_memory().await.unwrap();
        let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
        let rule =
            json!({"verbs": ["*"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"]});
        let role = json!({"metadata": {"name": "one"}, "rules": [rule]});
        let binding = json!({
            "metadata": {"name": "bob"}, "subjects": [{"kind": "User", "name": "bob"}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "one"},
        });
        let admin = User::admin();
        for (kind, object) in [("roles", role), ("rolebindings", binding)] {
            assert_eq!(ask(&server, &admin, "POST", &format!("{rbac}/{kind}"), &object).await, 201);
        }
        let bob = User { name: "bob".into(), ..User::anonymous() };
        let secrets = "/api/v1/namespaces/default/secrets";
        let older = "/api/v1/watch/namespaces/default/secrets";
        let victim = json!({"metadata": {"name": "victim"}});
        let mine = "fieldSelector=metadata.name%3Dmine";
        for (method, path, code) in [
            ("POST", secrets.to_owned(), 403),
            ("POST", format!("{secrets}?{mine}"), 403),
            ("PUT", format!("{secrets}?{mine}"), 403),
            ("PATCH", format!("{secrets}?{mine}"), 403),
            ("DELETE", format!("{secrets}?{mine}"), 403),
            ("GET", format!("{older}?{mine}"), 403),
            ("GET", secrets.to_owned(), 403),
            ("GET", format!("{secrets}?{mine}"), 200),
            ("GET", format!("{secrets}?watch=1&{mine}"), 200),
            ("GET", format!("{secrets}/mine"), 404),
            ("GET", format!("{secrets}/victim"), 403),
        ] {
            assert_eq!(ask(&server, &bob, method, &path, &victim).await, code, "{method} {path}");
        }
    }

    /// Creates a role of `default` with these rules for the user of its name.
    async fn give(server: &Server, name: &str, rules: Value) -> User {
        let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
        let role = json!({"metadata": {"name": name}, "rules": rules});
        let binding = json!({
            "metadata": {"name": name}, "subjects": [{"kind": "User", "name": name}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        });
        for (kind, object) in [("roles", role), ("rolebindings", binding)] {
            let path = format!("{rbac}/{kind}");
            assert_eq!(ask(server, &User::admin(), "POST", &path, &object).await, 201);
        }
        User { name: name.into(), ..User::anonymous() }
    }

    /// A change of what is not there makes it: by an apply, and by a PUT where the kind allows it.
    #[tokio::test]
    async fn who_may_change_an_object_may_not_make_it() {
        let server = Server::in_memory().await.unwrap();
        let maps = |verbs: Value, names: Value| json!({"verbs": verbs, "apiGroups": [""], "resources": ["configmaps"], "resourceNames": names});
        let leases = |verbs: Value| json!({"verbs": verbs, "apiGroups": ["coordination.k8s.io"], "resources": ["leases"]});
        let changes = give(
            &server,
            "changes",
            json!([maps(json!(["patch"]), json!(["x"])), leases(json!(["update"]))]),
        );
        let makes =
            json!([maps(json!(["patch", "create"]), json!(["y"])), leases(json!(["update", "create"]))]);
        let (changes, makes) = (changes.await, give(&server, "makes", makes).await);
        let map = |name: &str| {
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
            let path = format!("/api/v1/namespaces/default/configmaps/{name}");
            ("PATCH", path, "application/apply-patch+yaml", object)
        };
        let lease = |name: &str| {
            let object =
                json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}});
            let path = format!("/apis/coordination.k8s.io/v1/namespaces/default/leases/{name}");
            ("PUT", path, "application/json", object)
        };
        let admin = User::admin();
        for (user, (method, path, kind, object), code) in [
            (&changes, map("x"), 403),
            (&changes, lease("x"), 403),
            (&makes, map("y"), 201),
            (&makes, map("x"), 403),
            (&makes, lease("y"), 201),
            (&admin, map("x"), 201),
            (&admin, lease("x"), 201),
            // What is there, they may change.
            (&changes, map("x"), 200),
        ] {
            for dry_run in ["&dryRun=All", ""] {
                let request = Request::builder().method(method).header("content-type", kind);
                let request = request.uri(format!("{path}?fieldManager=m{dry_run}"));
                let request = request.body(Bytes::from(object.to_string())).unwrap();
                let answer = server.api().respond(user, request).await;
                assert_eq!(answer.status().as_u16(), code, "{} {method} {path}{dry_run}", user.name);
            }
        }
    }
}
