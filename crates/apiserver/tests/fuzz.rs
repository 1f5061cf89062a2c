//! Whatever a client sends, nothing panics, hangs or overflows the stack: paths, queries, selectors, headers, bodies,
//! patches, tokens and schemas, from bytes and from mutations of what is valid.
//!
//! `CAPT_FUZZ_CASES` sets the number of cases (`make fuzz` runs many), `CAPT_FUZZ_SEED` the seed. A case that fails
//! is printed with what it was made of.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use bytes::Bytes;
use capt_apiserver::{
    Server, ServerOptions,
    authn::User,
    bounds, builtin, managed_fields,
    managed_fields::TypeInfo,
    output::table::JsonPath,
    patch,
    request::{
        accept::{self, Endpoint, Format},
        body, cursor,
        delete::DeleteOptions,
        path::RequestPath,
        query::{ListOptions, Query},
        selector::{FieldSelector, LabelSelector},
        write::{WriteKind, WriteOptions},
    },
};
use capt_schema::Schema;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;

/// Enough to notice a broken parser in `make test`.
const CASES: u64 = 20_000;
/// No case may keep the processor longer, on the slowest machine; most take microseconds.
const LONGEST: Duration = Duration::from_secs(10);

const TEXTS: &[&str] = &[
    "/api/v1/namespaces/default/configmaps/a/status",
    "/apis/example.com/v1/watch/things?watch=1",
    "/api//v1/%2e%2e/%00/%zz",
    "limit=5&continue=abc&labelSelector=a%3Db&resourceVersionMatch=Exact&resourceVersion=7",
    "a in (b,c),!d,e!=f,g notin (),h>1",
    "metadata.name=a\\=b,spec.x!=c",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/yaml;q=0.1,*/*",
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0",
    ".spec.items[?(@.type==\"Ready\")].status[0:2,-1]..x['y']",
    "{range .items[*]}{.metadata.name}{end}",
    "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\",\"name\":\"b\"},\"data\":{\"a\":\"\\ud800\\u00e9\"}}",
    "{\"propagationPolicy\":\"Orphan\",\"preconditions\":{\"uid\":\"u\"},\"dryRun\":[\"All\"]}",
    "a: &x {b: [1, 0o7, 1e999, .inf, ~, 2001-01-01]}\nc: *x\n---\n? d\n: |\n  e\n",
    "[1,2,[3,[4,{\"a\":-0.0,\"b\":1E400}]]]",
];

struct Fuzz {
    random: StdRng,
}

impl Fuzz {
    fn below(&mut self, end: usize) -> usize {
        self.random.random_range(0..end)
    }

    /// A valid text with pieces cut out, doubled, swapped or spoilt; sometimes only bytes, sometimes very deep.
    fn text(&mut self) -> String {
        if self.below(20) == 0 {
            let length = self.below(64);
            let bytes: Vec<u8> = (0..length).map(|_| self.random.random()).collect();
            return String::from_utf8_lossy(&bytes).into_owned();
        }
        if self.below(200) == 0 {
            let open =
                *["[", "{\"a\":", "(", "[?(", "{", "- ", "a: {", "!", "\\"].choose(&mut self.random).unwrap();
            let times = 1 << self.below(17);
            return open.repeat(times);
        }
        let mut text: Vec<char> = (*TEXTS.choose(&mut self.random).unwrap()).chars().collect();
        for _ in 0..=self.below(6) {
            if text.is_empty() {
                break;
            }
            let (at, end) = (self.below(text.len()), self.below(text.len() + 1));
            let (start, end) = (at.min(end), at.max(end));
            match self.below(6) {
                0 => drop(text.drain(start..end)),
                1 => {
                    let piece: Vec<char> = text[start..end].to_vec();
                    text.splice(start..start, piece);
                }
                2 => text[at] = char::from_u32(self.random.random_range(0..0x1_0000)).unwrap_or('\u{fffd}'),
                3 => text.insert(
                    at,
                    *['"', '\\', '(', ')', '[', ']', '{', '}', ',', '=', '%', '/', '\n', '\t', '-', '0']
                        .choose(&mut self.random)
                        .unwrap(),
                ),
                4 => {
                    let other: Vec<char> = TEXTS.choose(&mut self.random).unwrap().chars().collect();
                    let from = self.below(other.len());
                    text.splice(start..end, other[from..].iter().copied());
                }
                _ => {
                    let last = text.len() - 1;
                    text.swap(start, end.min(last));
                }
            }
        }
        text.into_iter().collect()
    }

    /// Any value, sometimes one that means something to a schema or a patch.
    fn value(&mut self, depth: usize) -> Value {
        const WORDS: &[&str] = &[
            "type",
            "object",
            "string",
            "integer",
            "array",
            "properties",
            "items",
            "additionalProperties",
            "default",
            "enum",
            "pattern",
            "x-kubernetes-list-type",
            "x-kubernetes-list-map-keys",
            "x-kubernetes-validations",
            "rule",
            "map",
            "set",
            "x-kubernetes-preserve-unknown-fields",
            "x-kubernetes-int-or-string",
            "nullable",
            "required",
            "maxLength",
            "$patch",
            "$retainKeys",
            "$setElementOrder/list",
            "$deleteFromPrimitiveList/finalizers",
            "delete",
            "replace",
            "merge",
            "metadata",
            "finalizers",
            "labels",
            "spec",
            "name",
            "a",
            "b",
            "",
            "op",
            "path",
            "value",
            "/a/b",
            "/-",
            "add",
            "remove",
            "self.a == oldSelf.a",
            "self.all(x, x.size() < 3)",
            "f:a",
            "k:{\"name\":\"a\"}",
            "v:1",
            ".",
        ];
        let word = |this: &mut Self| (*WORDS.choose(&mut this.random).unwrap()).to_owned();
        match self.below(if depth == 0 { 6 } else { 9 }) {
            0 => Value::Null,
            1 => json!(self.below(2) == 0),
            2 => json!(self.random.random_range(-3_i64..4)),
            3 => json!(self.random.random::<f64>() * 1e300),
            4 => json!(self.text()),
            5 => json!(word(self)),
            6 => (0..self.below(4)).map(|_| self.value(depth - 1)).collect::<Vec<_>>().into(),
            _ => {
                (0..self.below(5)).map(|_| (word(self), self.value(depth - 1))).collect::<Map<_, _>>().into()
            }
        }
    }
}

fn parsers(text: &str) {
    let _ = RequestPath::parse(text);
    let query = Query::parse(text);
    let _ = ListOptions::parse(&query).map(|options| {
        let _ = options.list_from();
        options.watch_from()
    });
    let _ = WriteOptions::parse(&query, WriteKind::Create);
    let _ = DeleteOptions::from_query(&query);
    if let Ok(selector) = LabelSelector::parse(text) {
        selector.matches_object(&json!({"metadata": {"labels": {"a": "b", "h": "2"}}}));
    }
    let _ = FieldSelector::parse(text);
    for endpoint in [Endpoint::BuiltIn, Endpoint::Custom] {
        let _ = accept::negotiate(Some(text), endpoint);
        let _ = accept::negotiate_discovery(Some(text), endpoint);
        let _ = accept::patch_type(Some(text), endpoint);
        let _ = accept::body_format(Some(text), endpoint);
    }
    let _ = cursor::decode(text);
    if let Ok(path) = text.parse::<JsonPath>() {
        let _ =
            path.first(&json!({"spec": {"items": [{"type": "Ready", "status": [1, 2, 3]}]}, "items": [1]}));
    }
    let bytes = Bytes::copy_from_slice(text.as_bytes());
    for format in [Format::Json, Format::Yaml] {
        if let Ok(decoded) = body::decode(&bytes, format) {
            let _ = DeleteOptions::from_body(&decoded.value);
        }
    }
}

fn patches(object: &Value, patch: &Value) {
    let _ = patch::json_patch(&mut object.clone(), patch.clone());
    let _ = patch::merge_patch(&mut object.clone(), patch.clone());
    let name = builtin::definition_name("", "Node").unwrap();
    let types = TypeInfo::from_definitions(builtin::definitions(), &name).unwrap();
    let _ = patch::strategic_merge_patch(&mut object.clone(), &mut patch.clone(), &types);
    let _ = managed_fields::validate(patch, &types, managed_fields::Duplicates::Refused);
    let _ = managed_fields::merge(object, patch, &types);
    let _ = managed_fields::compare(object, patch, &types);
    let _ = managed_fields::to_field_set(patch, &types);
    for (group, kind) in [("", "Secret"), ("", "Node"), ("apiextensions.k8s.io", "CustomResourceDefinition")]
    {
        if let Ok(decoded) = builtin::decode(group, kind, patch.clone()) {
            let mut made = decoded.object;
            builtin::prepare_create(group, kind, &mut made);
            let _ = builtin::validate_create(group, kind, &made);
        }
    }
}

fn schemas(schema: &Value, object: &Value) {
    let _ = TypeInfo::from_crd_schema(schema);
    if let Ok(schema) = Schema::compile(schema) {
        let mut pruned = object.clone();
        let _ = schema.prune(&mut pruned);
        let _ = schema.default(&mut pruned);
        let _ = schema.validate(&pruned, Some(object));
    }
}

/// A server of its own, with an object of each of some kinds.
static SERVER: LazyLock<(Runtime, Server)> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let options = ServerOptions { controllers: false, ..ServerOptions::default() };
    let server = runtime.block_on(Server::in_memory_with(&options)).unwrap();
    (runtime, server)
});

/// Collections, and what is in them at first.
const KINDS: &[(&str, &str)] = &[
    (
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        r#"{"metadata":{"name":"x"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"}}"#,
    ),
    (
        "/api/v1/namespaces/default/configmaps",
        r#"{"metadata":{"name":"x","labels":{"a":"b"},"finalizers":["a/b"]},"data":{"a":"b"}}"#,
    ),
    ("/api/v1/namespaces/default/secrets", r#"{"metadata":{"name":"x"},"data":{"a":"YQ=="}}"#),
    (
        "/api/v1/nodes",
        r#"{"metadata":{"name":"x"},"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]},"status":{"addresses":[{"type":"InternalIP","address":"a"}]}}"#,
    ),
    (
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        r#"{"metadata":{"name":"xs.a.b"},"spec":{"group":"a.b","scope":"Cluster","names":{"plural":"xs","kind":"X"},"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{},"scale":{"specReplicasPath":".spec.n","statusReplicasPath":".status.n"}},"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"spec":{"type":"object","properties":{"n":{"type":"integer"}},"x-kubernetes-preserve-unknown-fields":true}}}}}]}}"#,
    ),
    (
        "/apis/a.b/v1/xs",
        r#"{"apiVersion":"a.b/v1","kind":"X","metadata":{"name":"x"},"spec":{"n":1,"a":[],"k":{"kind":"y"}},"status":{"n":1}}"#,
    ),
];

const PLACES: &[&str] = &[
    "",
    "/",
    "/kind",
    "/apiVersion",
    "/metadata",
    "/metadata/name",
    "/metadata/labels",
    "/metadata/labels/a",
    "/metadata/finalizers/0",
    "/metadata/managedFields",
    "/metadata/managedFields/0/fieldsV1",
    "/metadata/resourceVersion",
    "/roleRef",
    "/roleRef/name",
    "/roleRef/apiGroup",
    "/spec",
    "/spec/n",
    "/spec/k/kind",
    "/spec/k/x",
    "/spec/taints/-",
    "/spec/versions/0",
    "/spec/versions/0/schema",
    "/spec/versions/0/schema/openAPIV3Schema/properties",
    "/spec/versions/0/name",
    "/status",
    "/status/n",
    "/data",
    "/data/a",
];

impl Fuzz {
    fn operations(&mut self) -> Value {
        let place = |this: &mut Self| *PLACES.choose(&mut this.random).unwrap();
        let operation = |this: &mut Self| {
            let op = *["add", "remove", "replace", "copy", "move", "test"].choose(&mut this.random).unwrap();
            json!({"op": op, "path": place(this), "from": place(this), "value": this.value(3)})
        };
        (0..=self.below(4)).map(|_| operation(self)).collect()
    }

    /// A write of some object, and where it goes.
    fn write(&mut self) -> (&'static str, String, String, Value) {
        let (collection, base) = *KINDS.choose(&mut self.random).unwrap();
        let mut object: Value = serde_json::from_str(base).unwrap();
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let below = *["", "", "", "/status", "/scale"].choose(&mut self.random).unwrap();
        let one = format!("{collection}/{name}{below}?fieldManager=m&force=true");
        let patch = |of: &str| format!("application/{of}");
        for _ in 0..self.below(3) {
            // The root is no place for anything but an object.
            let spoilt = self.value(3);
            if let Some(member) = object.pointer_mut(PLACES.choose(&mut self.random).unwrap())
                && (!member["metadata"].is_object() || spoilt.is_object())
            {
                *member = spoilt;
            }
        }
        match self.below(8) {
            0 => ("POST", collection.to_owned(), patch("json"), object),
            1 => ("PUT", one.replace("&force=true", ""), patch("json"), object),
            2..5 => ("PATCH", one.replace("&force=true", ""), patch("json-patch+json"), self.operations()),
            5 => ("PATCH", one.replace("&force=true", ""), patch("merge-patch+json"), object),
            6 => ("PATCH", one.replace("&force=true", ""), patch("strategic-merge-patch+json"), object),
            _ => ("PATCH", one, patch("apply-patch+yaml"), object),
        }
    }
}

/// Sends a write, after the object it is about was made anew where it was gone.
fn send(method: &str, path: &str, kind: &str, body: &Value) {
    let (runtime, server) = &*SERVER;
    let ask = async |method: &str, path: &str, kind: &str, body: String| {
        let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
        let answer = server.api().respond(&User::admin(), request.body(Bytes::from(body)).unwrap()).await;
        answer.status().as_u16()
    };
    runtime.block_on(async {
        for (collection, base) in KINDS.iter().filter(|(collection, _)| path.starts_with(collection)) {
            ask("POST", collection, "application/json", (*base).to_owned()).await;
        }
        assert_ne!(ask(method, path, kind, body.to_string()).await, 0);
        ask("GET", path, "", String::new()).await;
    });
}

/// How long this thread has had a processor, where the system tells.
fn on_processor() -> Option<Duration> {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let time = told.split_whitespace().next()?.parse().ok().map(Duration::from_nanos);
    time.filter(|time| !time.is_zero())
}

/// Makes a case: what it is made of, and what is done with it.
type Make = fn(&mut Fuzz) -> (String, Box<dyn FnOnce()>);

/// Runs cases, or a share of them where each takes long, on a thread of its own, with the stack that a server's threads have.
fn run(name: &str, share: u64, case: Make) {
    let number =
        |name: &str, default| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (cases, seed) = (number("CAPT_FUZZ_CASES", CASES) / share, number("CAPT_FUZZ_SEED", 1));
    let work = move || {
        for at in 0..cases {
            let mut fuzz =
                Fuzz { random: StdRng::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(at)) };
            let (made_of, work) = case(&mut fuzz);
            let (begun, ran) = (Instant::now(), on_processor());
            let outcome = catch_unwind(AssertUnwindSafe(work));
            let shown: String = made_of.chars().take(2000).collect();
            assert!(outcome.is_ok(), "case {at} of seed {seed} panics: {shown}");
            // That others had the processor meanwhile is not its fault.
            let taken =
                ran.zip(on_processor()).map_or_else(|| begun.elapsed(), |(ran, now)| now.saturating_sub(ran));
            assert!(taken < LONGEST, "case {at} of seed {seed} takes too long: {shown}");
        }
    };
    // What tokio gives its threads.
    let thread = std::thread::Builder::new().name(name.to_owned()).stack_size(2 * 1024 * 1024);
    thread.spawn(work).unwrap().join().unwrap();
}

#[test]
fn no_text_breaks_a_parser() {
    run("texts", 1, |fuzz| {
        let text = fuzz.text();
        (text.clone(), Box::new(move || parsers(&text)))
    });
}

#[test]
fn no_patch_breaks_an_object() {
    run("patches", 1, |fuzz| {
        let (object, patch) = (fuzz.value(4), fuzz.value(4));
        (format!("{object} with {patch}"), Box::new(move || patches(&object, &patch)))
    });
}

#[test]
fn no_patch_grows_an_object_beyond_its_bounds() {
    run("growth", 10, |fuzz| {
        const PLACES: &[&str] =
            &["/a", "/b", "/a/x", "/b/x", "/a/x/y", "/l", "/l/0", "/l/-", "/l/0/x", "/b/l"];
        let object = json!({"a": {"x": {"y": fuzz.value(3)}}, "b": {}, "l": [{}, 1], "c": "x".repeat(100)});
        let operations: Value = (0..fuzz.below(300))
            .map(|_| {
                let op = *["copy", "copy", "copy", "move", "add"].choose(&mut fuzz.random).unwrap();
                let mut place = || *PLACES.choose(&mut fuzz.random).unwrap();
                json!({"op": op, "from": place(), "path": place(), "value": {"x": []}})
            })
            .collect();
        let shown = format!("{object} with {operations}");
        let work = move || {
            let most = object.to_string().len() + operations.to_string().len() + patch::MAX_COPIED;
            // As far as it goes: what fails in the end has grown before.
            for end in [operations.as_array().unwrap().len(), 1 + operations.as_array().unwrap().len() / 2] {
                let operations: Value = operations.as_array().unwrap().iter().take(end).cloned().collect();
                let mut patched = object.clone();
                let outcome = patch::json_patch(&mut patched, operations);
                assert!(patched.to_string().len() <= most);
                let depth = bounds::extent(&patched).depth;
                assert!(
                    depth <= if outcome.is_ok() { bounds::MAX_DEPTH } else { 3 * bounds::MAX_DEPTH },
                    "{depth}"
                );
            }
        };
        (shown, Box::new(work))
    });
}

#[test]
fn no_schema_breaks_the_compiler() {
    run("schemas", 1, |fuzz| {
        let mut schema = fuzz.value(5);
        if schema.is_object() {
            schema["type"] = json!("object");
        }
        let object = fuzz.value(4);
        (format!("{schema} with {object}"), Box::new(move || schemas(&schema, &object)))
    });
}

/// Whole writes, through the server and into its store.
#[test]
fn no_write_breaks_the_server() {
    run("writes", 10, |fuzz| {
        let (method, path, kind, body) = fuzz.write();
        let made_of = format!("{method} {path} {kind} {body}");
        (made_of, Box::new(move || send(method, &path, &kind, &body)))
    });
}
