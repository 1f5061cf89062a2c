//! Requests that clients send before and beside their work, with the code that kube-apiserver 1.36 answers.
//!
//! One table for two suites: `served` holds the embedded server to it without a peer, `edge` asks a kube-apiserver the same.

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub method: &'static str,
    pub path: &'static str,
    pub accept: &'static str,
    pub body: &'static str,
    pub code: u16,
}

const fn row(method: &'static str, path: &'static str, code: u16) -> Row {
    Row { method, path, accept: "", body: "", code }
}

const fn get(path: &'static str, code: u16) -> Row {
    row("GET", path, code)
}

impl Row {
    const fn accept(self, accept: &'static str) -> Self {
        Self { accept, ..self }
    }

    const fn body(self, body: &'static str) -> Self {
        Self { body, ..self }
    }
}

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const PARTIAL_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
const EITHER: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const ACCESS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const RULES: &str = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
const SUBJECT: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const LOCAL: &str = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews";
const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

const MAY_I: &str =
    r#"{"spec":{"resourceAttributes":{"verb":"get","resource":"configmaps","namespace":"default"}}}"#;
const WHICH: &str = r#"{"spec":{"namespace":"default"}}"#;
const MAY_THEY: &str = r#"{"spec":{"user":"ann","resourceAttributes":{"verb":"get","resource":"configmaps","namespace":"default"}}}"#;
const UNKNOWN: &str = r#"{"spec":{"nothing":1,"resourceAttributes":{"verb":"get","resource":"configmaps"}}}"#;

const fn review(path: &'static str, body: &'static str, accept: &'static str, code: u16) -> Row {
    row("POST", path, code).accept(accept).body(body)
}

/// All of them. None changes anything.
pub const ROWS: &[Row] = &[
    // The list of paths.
    get("/", 200),
    get("/index.html", 200),
    row("HEAD", "/", 200),
    get("/nothing", 404),
    // Health.
    get("/healthz", 200),
    get("/livez", 200),
    get("/readyz", 200),
    get("/healthz?verbose", 200),
    get("/livez?verbose=1", 200),
    get("/readyz?verbose&exclude=ping", 200),
    get("/readyz?exclude=nothing", 200),
    get("/healthz/ping", 200),
    get("/livez/ping", 200),
    get("/readyz/ping?verbose", 200),
    get("/healthz/nothing", 404),
    get("/readyz/", 404),
    row("HEAD", "/healthz", 200),
    row("POST", "/livez", 200),
    // How long a request may take.
    get("/api/v1/namespaces?timeout=invalid", 400),
    get("/api/v1/namespaces?timeout=5", 400),
    get("/api/v1/namespaces?timeout=5x", 400),
    get("/api/v1/namespaces?timeout=", 200),
    get("/api/v1/namespaces?timeout=0", 200),
    get("/api/v1/namespaces?timeout=30s", 200),
    get("/api/v1/namespaces?timeout=-1m", 200),
    get("/api/v1/namespaces?timeout=1h", 200),
    get("/api/v1/namespaces/default?timeout=invalid", 400),
    get("/api/v1/namespaces?watch=1&timeoutSeconds=1&timeout=invalid", 200),
    get("/api/v1/watch/namespaces?timeoutSeconds=1&timeout=invalid", 200),
    get("/version?timeout=invalid", 400),
    get("/healthz?timeout=invalid", 400),
    get("/openapi/v3?timeout=invalid", 400),
    get("/apis?timeout=invalid", 400),
    get("/nothing?timeout=invalid", 400),
    row("DELETE", "/api/v1/namespaces/default/configmaps/nobody?timeout=invalid", 400),
    row("PUT", "/api/v1/namespaces/default/configmaps/nobody?timeout=invalid", 400),
    review("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews?timeout=invalid", MAY_I, "", 400),
    // Reviews are never listed, so nobody prints them.
    review(ACCESS, MAY_I, "", 201),
    review(ACCESS, MAY_I, TABLE, 406),
    review(ACCESS, MAY_I, EITHER, 201),
    review(ACCESS, MAY_I, PARTIAL, 201),
    review(ACCESS, MAY_I, PARTIAL_LIST, 406),
    review(ACCESS, MAY_I, "application/yaml", 201),
    review(ACCESS, MAY_I, "text/html", 406),
    review(RULES, WHICH, TABLE, 406),
    review(RULES, WHICH, EITHER, 201),
    review(SUBJECT, MAY_THEY, TABLE, 406),
    review(SUBJECT, MAY_THEY, EITHER, 201),
    review(LOCAL, MAY_THEY, TABLE, 406),
    review(LOCAL, MAY_THEY, EITHER, 201),
    review(WHO, "{}", TABLE, 406),
    review(WHO, "{}", EITHER, 201),
    review(WHO, "{}", PARTIAL_LIST, 406),
    // They are created, and take the options of that.
    review("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews?dryRun=x", MAY_I, "", 422),
    review("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews?dryRun=All", MAY_I, "", 201),
    review("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews?fieldValidation=x", MAY_I, "", 422),
    review("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews?fieldValidation=Strict", UNKNOWN, "", 400),
    review("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews?fieldValidation=Warn", UNKNOWN, "", 201),
    get(ACCESS, 405),
    // Tables of what can be listed.
    get(MAPS, 200).accept(TABLE),
    get("/api/v1/namespaces/default", 200).accept(TABLE),
    get("/api/v1/namespaces/default/status", 200).accept(TABLE),
    get("/api/v1/namespaces/default?includeObject=x", 400).accept(TABLE),
    get("/api/v1/namespaces", 406).accept("text/html"),
    get("/api/v1/namespaces/default", 406).accept("text/html"),
    get("/api/v1/namespaces/default/status", 406).accept("text/html"),
    row("DELETE", "/api/v1/namespaces/nobody", 406).accept("text/html"),
    row("DELETE", "/api/v1/namespaces/default", 403),
    row("DELETE", "/api/v1/namespaces/default?dryRun=All", 403),
    row("DELETE", "/api/v1/namespaces/kube-public", 403),
    row("DELETE", "/api/v1/namespaces/kube-system", 403),
    get("/api", 406).accept(TABLE),
    get("/apis", 406).accept(TABLE),
    // Services: none is here, and clients may see that.
    get("/api/v1/namespaces/kube-system/services?labelSelector=kubernetes.io%2Fcluster-service%3Dtrue", 200),
    // Methods.
    row("POST", "/version", 405),
    row("HEAD", "/version", 405),
    row("POST", "/api", 405),
    row("POST", "/api/v1", 405),
    row("HEAD", "/api/v1", 405),
    row("POST", "/apis/coordination.k8s.io/v1", 405),
    row("HEAD", MAPS, 405),
    row("HEAD", "/metrics", 200),
    row("HEAD", "/openapi/v2", 200),
    row("HEAD", "/openapi/v3", 200),
    row("HEAD", "/openapi/v3/api/v1", 200),
    row("HEAD", "/nothing", 404),
    get("/openapi/v3/api/v1?hash=old", 301),
];
