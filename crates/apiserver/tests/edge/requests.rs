//! Bad requests, one by one.

use capt_apiserver::{
    output::partial::{not_many, not_one},
    request::path::{RequestPath, forbidden_path},
    status::ApiError,
};
use serde_json::{Value, json};

use crate::{Got, Real, Sent, edge, embedded, get, query, real, send};

/// The real server answers in protobuf as well, and says that it takes custom resources in it, which it does not.
fn without_protobuf(text: &str, ours: &str) -> String {
    if ours.contains("application/vnd.kubernetes.protobuf") {
        return text.to_owned();
    }
    text.replace(", application/vnd.kubernetes.protobuf;stream=watch", "")
        .replace(", application/vnd.kubernetes.protobuf", "")
}

/// Where the edge refuses, the real server says the same; where it does not, the real server does not refuse for a
/// reason that is the edge's to know.
pub fn compare(sent: &Sent, ours: &Result<(), ApiError>, theirs: &Got) -> Result<(), String> {
    let differs =
        |ours: &str| Err(format!("{sent:?}\n  ours: {ours}\ntheirs: {} {}", theirs.code, theirs.text));
    match ours {
        Ok(()) if matches!(theirs.code, 200 | 201 | 404 | 409) => Ok(()),
        Ok(()) => differs("accepted"),
        Err(error) => {
            let (kind, body) = error.body();
            let body = String::from_utf8(body.to_vec()).unwrap();
            if theirs.code != error.code().as_u16() {
                return differs(&body);
            }
            let text = without_protobuf(&theirs.text, &body);
            let same = if kind == "application/json" {
                serde_json::from_str::<Value>(&text).ok() == serde_json::from_str(&body).ok()
            } else {
                text == body
            };
            if same { Ok(()) } else { differs(&body) }
        }
    }
}

/// Both servers give the same verdict, and refuse in the same words.
pub fn same(sent: &Sent, ours: &Got, theirs: &Got) -> Result<(), String> {
    let words = |got: &Got| {
        let text = without_protobuf(&got.text, &ours.text);
        let status = serde_json::from_str::<Value>(&text).unwrap_or_default();
        let words = status["message"].as_str().map(str::to_owned);
        words.map_or(text, |message| format!("{} {message}", status["reason"]))
    };
    let is_same = ours.code == theirs.code && (ours.code < 400 || words(ours) == words(theirs));
    let shown = || {
        format!("{sent:?}\n  embedded: {} {}\ntheirs: {} {}", ours.code, ours.text, theirs.code, theirs.text)
    };
    if is_same { Ok(()) } else { Err(shown()) }
}

pub async fn all_agree(real: &Real, requests: impl IntoIterator<Item = Sent>) {
    let embedded = embedded().await;
    let mut wrong = Vec::new();
    let mut count = 0;
    for sent in requests {
        count += 1;
        let theirs = real.ask(&sent).await;
        wrong.extend(compare(&sent, &edge::answer(&sent), &theirs).err());
        wrong.extend(same(&sent, &embedded.ask(&sent).await, &theirs).err());
    }
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
}

const MAPS: &str = "/api/v1/namespaces/edge/configmaps";
const THINGS: &str = "/apis/edge.example.com/v1/namespaces/edge/things";

#[tokio::test]
async fn paths() {
    let Some(real) = real().await else { return };
    let paths = [
        "/nothing",
        "/api/v1/nothing",
        "/api/v1/namespaces/edge/nothing",
        "/api/v1/namespaces/edge/configmaps/x/y/z",
        "/api/v1/namespaces/edge/configmaps/",
        "/api/v1/namespaces/edge/configmaps//x",
        "/api//v1/namespaces",
        "/api/v1/namespaces/",
        "/api/v1/namespaces/edge/",
        "/api/v1/namespaces/edge/status",
        "/api/v1/namespaces/edge/status/x",
        "/api/v1/namespaces/status/configmaps",
        "/api/v1/namespaces/edge/nodes",
        "/api/v1/namespaces/edge/namespaces",
        "/api/v1/configmaps/x",
        "/api/v1/namespaces/edge/configmaps/..",
        "/api/v1/namespaces/edge/configmaps/x%25y",
        "/api/v1/namespaces/%65dge/configmaps/m%30",
        "/api/v2/configmaps",
        "/apis/edge.example.com/v1/nothing",
        "/apis/edge.example.com/v2/things",
        "/apis/edge.example.com/v1/things",
        "/apis/edge.example.com/v1/things/t1",
        "/apis/edge.example.com/v1/namespaces/edge/things/..",
        "/apis/nogroup/v1/things",
        "/api",
        "/api/",
        "/apis/",
        "/version/",
        "/readyz/",
        "/livez/nope",
        "/metricsx",
        "/openapi",
    ];
    let mut requests: Vec<_> =
        paths.iter().filter(|path| !path.starts_with("/livez")).map(|path| get(*path)).collect();
    for (method, path) in [
        ("PUT", MAPS),
        ("PATCH", MAPS),
        ("POST", "/api/v1/namespaces/edge/configmaps/x"),
        ("DELETE", "/api/v1/namespaces"),
        ("OPTIONS", MAPS),
        ("POST", "/version"),
        ("POST", "/api"),
    ] {
        requests.push(Sent { method, path: path.to_owned(), ..Sent::default() });
    }
    all_agree(&real, requests).await;
}

#[tokio::test]
async fn list_options() {
    let Some(real) = real().await else { return };
    let queries: &[&[(&str, &str)]] = &[
        &[("limit", "x")],
        &[("limit", "-1")],
        &[("limit", "")],
        &[("limit", "99999999999999999999")],
        &[("limit", "x"), ("timeoutSeconds", "y"), ("labelSelector", ",")],
        &[("continue", "abc!")],
        &[("continue", "abcd")],
        &[("continue", "abcde")],
        &[("continue", "e30")],
        &[("continue", "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ")],
        &[("continue", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MX0")],
        &[("continue", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYS8uLi9iIn0")],
        &[("continue", "eyJ2IjoxfQ")],
        &[("resourceVersion", "x")],
        &[("resourceVersion", "-1")],
        &[("resourceVersion", "+1")],
        &[("resourceVersionMatch", "Exact")],
        &[("resourceVersionMatch", "Foo"), ("resourceVersion", "1")],
        &[("resourceVersionMatch", "Exact"), ("resourceVersion", "0")],
        &[("resourceVersionMatch", "Exact"), ("resourceVersion", "1"), ("continue", "x")],
        &[("sendInitialEvents", "true")],
        &[("watch", "1"), ("sendInitialEvents", "true")],
        &[("watch", "1"), ("sendInitialEvents", "")],
        &[("watch", "1"), ("resourceVersionMatch", "Exact"), ("continue", "q")],
        &[("watch", "1"), ("resourceVersion", "x")],
        &[("watch", "1"), ("fieldSelector", "x=y")],
        &[("fieldSelector", "x")],
        &[("fieldSelector", "x=y")],
        &[("fieldSelector", "metadata.name=a=b")],
        &[("fieldSelector", "metadata.name=a\\b")],
        &[("fieldSelector", "b=1,a=2,metadata.name=1")],
    ];
    let paths = [MAPS, THINGS, "/api/v1/namespaces", "/api/v1/secrets", "/api/v1/events", "/api/v1/nodes"];
    let events = "/apis/events.k8s.io/v1/events";
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let mut requests: Vec<_> = paths
        .into_iter()
        .flat_map(|path| queries.iter().map(move |pairs| get(format!("{path}{}", query(pairs)))))
        .collect();
    for (path, selector) in [
        ("/api/v1/namespaces", "metadata.namespace=b"),
        ("/api/v1/namespaces", "status.phase=Active"),
        ("/api/v1/nodes", "metadata.namespace=b"),
        ("/api/v1/secrets", "type=x"),
        (events, "involvedObject.name=x"),
        (events, "regarding.name=x"),
        (crds, "spec.x=y"),
        (crds, "metadata.namespace=y"),
        (THINGS, "metadata.namespace=y"),
        (THINGS, "spec.color=x,spec.n!=3"),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles", "metadata.namespace=y"),
    ] {
        requests.push(get(format!("{path}{}", query(&[("fieldSelector", selector)]))));
    }
    requests.push(get(format!("{MAPS}?%zz=1&a;limit=x&limit=1")));
    requests.push(get(format!("{MAPS}/m0?resourceVersion=x")));
    requests.push(get(format!("{THINGS}/t1?export=true")));
    let name = query(&[("fieldSelector", "metadata.name=b")]);
    requests.push(get(format!("/api/v1/watch/namespaces/edge/configmaps/a{name}")));
    all_agree(&real, requests).await;
}

#[tokio::test]
async fn write_options() {
    let Some(real) = real().await else { return };
    let map = r#"{"metadata":{"name":"m0"}}"#;
    let json = "application/json";
    let long = format!("{MAPS}?fieldManager={}", "a".repeat(129));
    let mut requests = vec![
        send("POST", format!("{MAPS}?dryRun=Foo"), json, map),
        send("POST", format!("{MAPS}?dryRun="), json, map),
        send("POST", format!("{MAPS}?dryRun=All&dryRun=Foo&fieldValidation=x"), json, map),
        send("POST", long, json, map),
        send("POST", format!("{MAPS}?fieldManager=a%01b%02%C2%AD%E2%80%8B"), json, map),
        send("PUT", format!("{MAPS}/m0?fieldValidation=strict"), json, map),
        send("PATCH", format!("{MAPS}/m0?force=true"), "application/merge-patch+json", map),
        send("PATCH", format!("{MAPS}/m0?force=0"), "application/json-patch+json", "[]"),
        send("PATCH", format!("{MAPS}/m0"), "application/apply-patch+yaml", map),
    ];
    for path in [MAPS, THINGS] {
        let one = format!("{path}/m0");
        requests.extend([
            send("PATCH", one.clone(), json, map),
            send("PATCH", one.clone(), "", map),
            send("PATCH", one.clone(), "text/plain", map),
            send("POST", path, "text/x", map),
            send("DELETE", format!("{path}/zz?propagationPolicy=Foo"), json, ""),
            send("DELETE", format!("{path}/zz?propagationPolicy="), json, ""),
            send("DELETE", format!("{path}/zz?propagationPolicy=Orphan&orphanDependents=true"), json, ""),
            send("DELETE", format!("{path}/zz?gracePeriodSeconds=x"), json, ""),
            send("DELETE", format!("{path}/zz?dryRun=x"), json, ""),
            send("DELETE", format!("{path}?limit=x"), json, ""),
            send("DELETE", format!("{path}?propagationPolicy=x"), json, ""),
            send("DELETE", format!("{path}?sendInitialEvents=1"), json, ""),
            send("DELETE", format!("{path}/zz"), "x/y", "{}"),
        ]);
        for body in [
            r#"{"propagationPolicy":"Foo"}"#,
            r#"{"dryRun":["x"],"orphanDependents":true,"propagationPolicy":"Bar"}"#,
            r#"{"gracePeriodSeconds":"x"}"#,
            r#"{"gracePeriodSeconds":1.5}"#,
            r#"{"preconditions":5}"#,
            r#"{"preconditions":{"uid":1}}"#,
            r#"{"preconditions":{"resourceVersion":true}}"#,
            r#"{"dryRun":"All"}"#,
            r#"{"dryRun":[1]}"#,
            r#"{"orphanDependents":1}"#,
            r#"{"propagationPolicy":{}}"#,
            r#"{"kind":"Foo","apiVersion":"v1"}"#,
            r#"{"kind":"DeleteOptions","apiVersion":"foo/v1"}"#,
            r#"{"kind":"DeleteOptions","apiVersion":"apps/v1"}"#,
            r#"{"foo":1}"#,
            "null",
            "{",
            "{} x",
        ] {
            requests.push(send("DELETE", format!("{path}/zz"), json, body));
        }
    }
    all_agree(&real, requests).await;
}

#[tokio::test]
async fn bodies() {
    let Some(real) = real().await else { return };
    let json = "application/json";
    let bodies = [
        "",
        "{",
        "[]",
        "5",
        "\"x\"",
        r#"{"a":1} x"#,
        "null",
        "{}",
        r#"{"kind":5}"#,
        r#"{"apiVersion":[]}"#,
        r#"{"kind":"Foo","apiVersion":"v1"}"#,
        r#"{"kind":"Foo","apiVersion":"edge.example.com/v1"}"#,
        r#"{"kind":"ConfigMap","apiVersion":"v2"}"#,
        r#"{"kind":"Thing"}"#,
        r#"{"kind":"Thing","apiVersion":"edge.example.com/v2"}"#,
        r#"{"metadata":{"name":"a"},"data":{"x":tru}}"#,
        r#"{"metadata":{"name":"a"},"data":{"x":"a\qb"}}"#,
    ];
    let mut requests: Vec<_> = [MAPS, THINGS]
        .into_iter()
        .flat_map(|path| {
            bodies.iter().map(move |body| send("POST", format!("{path}?dryRun=All"), json, *body))
        })
        .collect();
    let twice = r#"{"kind":"KIND","apiVersion":"VERSION","metadata":{"name":"q","name":"r","labels":{"a":"1","a":"2"}},
        "EXTRA":{"a":"1","a":"2","a":"3"}}"#;
    let maps = twice.replace("KIND", "ConfigMap").replace("VERSION", "v1").replace("EXTRA", "data");
    let things =
        twice.replace("KIND", "Thing").replace("VERSION", "edge.example.com/v1").replace("EXTRA", "spec");
    for (path, body) in [(MAPS, maps), (THINGS, things)] {
        requests.push(send("POST", format!("{path}?dryRun=All&fieldValidation=Strict"), json, body.clone()));
        requests.push(send("POST", format!("{path}?dryRun=All"), json, body));
    }
    all_agree(&real, requests).await;

    let huge = json!({"metadata": {"name": "huge"}, "data": {"x": "x".repeat(3 * 1024 * 1024)}});
    all_agree(&real, [send("POST", MAPS, json, huge.to_string())]).await;
}

#[tokio::test]
async fn headers() {
    let Some(real) = real().await else { return };
    let accepts = [
        "application/cbor",
        "text/html",
        "text/html,*/*;q=0.1",
        "application/*",
        "*",
        "*/*",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=Table;v=v2;g=meta.k8s.io",
        "application/json;as=Table;v=v2;g=meta.k8s.io,application/json",
        "application/json;as=Table",
        "application/json;as=Foo;v=v1;g=meta.k8s.io",
        "application/json;stream=foo",
        "application/json;stream=watch",
        "application/json;sv=v1",
        "application/json;sv=v2",
        "application/json;foo=bar",
        "application/json;q=x",
        "application",
        "application/json/x",
        ",",
    ];
    let mut requests = Vec::new();
    for accept in accepts {
        requests.extend([MAPS, THINGS, "/api", "/apis"].map(|path| get(path).accept(accept)));
    }
    // A watch is not served as YAML; the refusal itself is, so only the verdict is compared.
    all_agree(&real, requests).await;
    for path in [MAPS, THINGS] {
        let sent = get(format!("{path}?watch=1&timeoutSeconds=1")).accept("application/yaml");
        let theirs = real.ask(&sent).await;
        let ours = edge::answer(&sent).unwrap_err();
        assert_eq!(theirs.code, ours.code().as_u16());
    }
}

#[tokio::test]
async fn conflicts() {
    let Some(real) = real().await else { return };
    let resources = edge::resources();
    let json = "application/json";
    for (path, plural, name) in [(MAPS, "configmaps", "m0"), (THINGS, "things", "t1")] {
        let resource = resources.iter().find(|resource| resource.plural == plural).unwrap();
        let object = real.ask(&get(format!("{path}/{name}"))).await.json();
        let (uid, version) = (&object["metadata"]["uid"], &object["metadata"]["resourceVersion"]);
        let (uid, version) = (uid.as_str().unwrap(), version.as_str().unwrap());
        let group = if resource.group.is_empty() { String::new() } else { format!("{}/", resource.group) };
        let key = format!("/registry/{group}{plural}/edge/{name}");
        let delete = |body: Value| send("DELETE", format!("{path}/{name}"), json, body.to_string());
        let put = |pointer: &str, value: &str| {
            let mut changed = object.clone();
            changed["metadata"][pointer] = value.into();
            send("PUT", format!("{path}/{name}"), json, changed.to_string())
        };
        let post = send("POST", path, json, {
            let mut changed = object.clone();
            changed["metadata"].as_object_mut().unwrap().remove("resourceVersion");
            changed.to_string()
        });
        let rows = [
            (
                delete(json!({"preconditions": {"uid": "u"}})),
                ApiError::uid_precondition(resource, name, "u", uid),
            ),
            (
                delete(json!({"preconditions": {"resourceVersion": "1"}})),
                ApiError::version_precondition(resource, name, "1", version),
            ),
            (put("resourceVersion", "1"), ApiError::modified(resource, name)),
            (put("uid", "u"), ApiError::uid_of_update(resource, name, &key, "u", uid)),
            (post, ApiError::already_exists(resource, name)),
            (get(format!("{path}/none")), ApiError::not_found(resource, "none")),
        ];
        for (sent, ours) in rows {
            let theirs = real.ask(&sent).await;
            compare(&sent, &Err(ours), &theirs).unwrap();
        }
        // The only write besides the seed, in a namespace of its own.
        let path = path.replace("/edge/", "/default/");
        let mut doomed = object.clone();
        doomed["metadata"] = json!({"name": "doomed"});
        real.create(&path, doomed).await;
        let uid = real.ask(&get(format!("{path}/doomed"))).await.json()["metadata"]["uid"].clone();
        let theirs = real.ask(&send("DELETE", format!("{path}/doomed"), json, "")).await;
        assert_eq!(theirs.json(), capt_apiserver::status::deleted(resource, "doomed", uid.as_str().unwrap()));
    }
}

#[tokio::test]
async fn rights() {
    let Some(real) = real().await else { return };
    let nobody = "no<b>ody";
    let paths = [
        ("GET", MAPS),
        ("GET", "/api/v1/namespaces/edge/configmaps/m0"),
        ("DELETE", "/api/v1/namespaces/edge/configmaps/m0"),
        ("DELETE", MAPS),
        ("POST", THINGS),
        ("GET", "/api/v1/namespaces/edge"),
        ("GET", "/api/v1/nodes"),
        ("GET", "/api/v1/watch/nodes"),
        ("PUT", "/apis/edge.example.com/v1/namespaces/edge/things/t1/status"),
        ("GET", "/metrics"),
        ("POST", "/nothing"),
    ];
    for (method, path) in paths {
        let headers = vec![("impersonate-user", nobody.to_owned())];
        let sent = Sent { method, path: path.to_owned(), headers, body: String::new() };
        let parsed = method.parse().unwrap();
        let ours = match RequestPath::parse(path) {
            RequestPath::Resource(path) => path.forbidden(nobody, path.verb(&parsed, false).unwrap(), ""),
            _ => forbidden_path(nobody, &parsed, path, ""),
        };
        compare(&sent, &Err(ours), &real.ask(&sent).await).unwrap();
    }
}

#[tokio::test]
async fn metadata_of_the_wrong_number() {
    let Some(real) = real().await else { return };
    for resource in edge::resources() {
        let path = crate::output::path_of(&resource);
        let name = real.ask(&get(path.as_str())).await.json()["items"][0]["metadata"]["name"].clone();
        let one = format!("{path}/{}", name.as_str().unwrap());
        for (path, kind, ours) in [
            (path.as_str(), "PartialObjectMetadata", not_one(&resource)),
            (one.as_str(), "PartialObjectMetadataList", not_many(&resource)),
        ] {
            let sent = get(path).accept(&format!("application/json;as={kind};v=v1;g=meta.k8s.io"));
            compare(&sent, &Err(ours), &real.ask(&sent).await).unwrap();
        }
    }
}
