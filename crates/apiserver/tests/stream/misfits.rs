//! Requests that no server can serve.

use serde_json::json;

use crate::definitions::GROUP;
use crate::episode::{Body, Episode, Request};

const BODIES: &[&str] = &[
    "",
    "{",
    "[]",
    "null",
    "5",
    "\"x\"",
    "{} x",
    "{\"kind\":5}",
    "{\"apiVersion\":\"v9\",\"kind\":\"Nothing\",\"metadata\":{\"name\":\"q\"}}",
    "{\"metadata\":[]}",
    "{\"metadata\":{\"name\":5}}",
    "{\"metadata\":{\"name\":\"q\",\"name\":\"r\"}}",
    "{\"metadata\":{\"name\":\"q\",\"labels\":[]}}",
    "{\"metadata\":{\"name\":\"q\"},\"spec\":5}",
    "{\"metadata\":{\"name\":\"q\",\"creationTimestamp\":\"yesterday\"}}",
    "{\"metadata\":{\"generateName\":\"q\",\"finalizers\":[1]}}",
];

const QUERIES: &[&str] = &[
    "dryRun=Some",
    "fieldValidation=Maybe",
    "fieldManager=%01",
    "limit=x",
    "resourceVersion=x",
    "resourceVersionMatch=Exact",
    "resourceVersion=1&resourceVersionMatch=Nearly",
    "labelSelector=%3D%3D",
    "fieldSelector=a",
    "continue=abc",
    "timeoutSeconds=x",
    "sendInitialEvents=true",
    "gracePeriodSeconds=x",
    "propagationPolicy=Never",
    "force=true",
    "pretty=yes",
];

impl Episode<'_> {
    pub fn misfit(&mut self, index: usize) -> Request {
        let version = self.version(index);
        let collection = self.collection(index, version);
        let name = self.name(index);
        // A name that was generated is not to be mistaken for another one.
        let name = if name.starts_with('@') { "a".to_owned() } else { name };
        let one = format!("{collection}/{name}");
        let headers = vec![("content-type", "application/json".to_owned())];
        let mut request = Request {
            method: "GET",
            path: one.clone(),
            headers,
            body: Body::Text(String::new()),
            about: None,
        };
        match self.chance.below(13) {
            0 | 1 => self.bad_body(index, &mut request, &collection, &one),
            2 | 3 => self.bad_query(&mut request, &collection, &one),
            4 => {
                let paths = [
                    "/api/v1/nothings",
                    "/api/v2/configmaps",
                    "/apis/nogroup/v1/things",
                    "/apis/stream.capt.dev/v9/things",
                    "/apis/stream.capt.dev/v1/nothings",
                    "/api/v1/things",
                    "/nothing",
                ];
                request.method = self.chance.word(&["GET", "POST", "DELETE", "PUT"]);
                request.path = self.chance.word(&paths).to_owned();
                request.body = Body::Text("{}".to_owned());
            }
            5 => {
                request.method = self.chance.word(&["POST", "OPTIONS", "FOO"]);
                request.body = Body::Text("{}".to_owned());
            }
            6 => {
                // Whole collections are only deleted on purpose.
                request.method = self.chance.word(&["PUT", "PATCH", "OPTIONS", "HEAD"]);
                request.path = format!("{collection}?labelSelector=ep%3D{}", self.namespace);
            }
            7 => {
                request.path =
                    format!("{one}/{}", self.chance.word(&["status", "scale", "nothing", "finalize"]));
                request.method = self.chance.word(&["GET", "GET", "POST", "DELETE"]);
            }
            8 => {
                request.path = collection.clone();
                request.method = "POST";
                request.headers[0].1 = self
                    .chance
                    .word(&["text/plain", "", "application/xml", "application/json; charset=utf-8", "a/b/c"])
                    .to_owned();
                request.body = Body::Text(self.object(index, version, None, false).to_string());
            }
            9 => {
                request.method = "PATCH";
                request.headers[0].1 = self
                    .chance
                    .word(&[
                        "application/json",
                        "",
                        "application/merge-patch+json",
                        "application/json-patch+json",
                        "application/apply-patch+yaml",
                    ])
                    .to_owned();
                request.body = Body::Text(
                    self.chance
                        .word(&[
                            "{",
                            "[]",
                            "{}",
                            "5",
                            "",
                            "null",
                            "[{}]",
                            "[1]",
                            "{\"metadata\":5}",
                            "a: b",
                            "[{\"op\":\"add\"}]",
                        ])
                        .to_owned(),
                );
            }
            10 => {
                request.headers = vec![(
                    "accept",
                    self.chance
                        .word(&[
                            "text/html",
                            "application/cbor",
                            "application/json;as=Strange;v=v1;g=meta.k8s.io",
                            "application/json;as=Table;v=v9;g=meta.k8s.io",
                            "image/*",
                        ])
                        .to_owned(),
                )];
            }
            11 => {
                let paths = [
                    format!("/api/v1/namespaces/{}/namespaces", self.namespace),
                    format!("/api/v1/namespaces/{}/nodes/x", self.namespace),
                    format!("/apis/{GROUP}/v1/things/x"),
                    format!("/apis/{GROUP}/v1/namespaces/{}/wides/x", self.namespace),
                    format!("/apis/{GROUP}/v1/wides/x/scale"),
                    "/api/v1/configmaps/x".to_owned(),
                    "/api/v1/namespaces/nowhere/configmaps".to_owned(),
                    format!("/apis/{GROUP}/v1/namespaces/nowhere/things"),
                ];
                request.path = self.chance.pick(&paths).clone();
                request.method = self.chance.word(&["GET", "POST"]);
                request.body = Body::Text(json!({"metadata": {"name": "x"}, "spec": {}}).to_string());
            }
            _ => {
                request.path = format!(
                    "{collection}/{}",
                    self.chance
                        .word(&["..", ".", "a%2Fb", "a%25b", "%20", "UPPER", "a b"])
                        .replace(' ', "%20")
                );
                request.method = self.chance.word(&["GET", "DELETE", "PUT"]);
                if request.method == "PUT" {
                    request.body = Body::Text(json!({"metadata": {"name": "q"}}).to_string());
                }
            }
        }
        request
    }

    fn bad_body(&mut self, index: usize, request: &mut Request, collection: &str, one: &str) {
        request.method = self.chance.word(&["POST", "PUT", "DELETE"]);
        request.path = if request.method == "POST" { collection.to_owned() } else { format!("{one}-none") };
        if request.method != "DELETE" {
            request.path.push_str("?dryRun=All");
        }
        request.path.push_str(match (request.method, self.chance.below(3)) {
            ("DELETE", _) | (_, 0) => "",
            (_, 1) => "&fieldValidation=Strict",
            _ => "&fieldValidation=Ignore",
        });
        let mut body = self.chance.word(BODIES).to_owned();
        if body.contains("\"q\",\"name\"") && self.kind(index).group == GROUP {
            // Without a kind, what is said of a custom object depends on where the reader stopped.
            body = "{}".to_owned();
        }
        if self.chance.percent(10) {
            request.headers[0].1 = "application/yaml".to_owned();
            body = self
                .chance
                .word(&["a: b: c", "- x", "{", "metadata: {name: q", "a: 1\n---\nb: 2\n"])
                .to_owned();
        }
        // Refused before anybody looks whether the version is deprecated.
        if self.chance.percent(3) && !request.path.contains("/v1beta1/") {
            body =
                json!({"metadata": {"name": "q", "annotations": {"big": "x".repeat(3 << 20)}}}).to_string();
        }
        request.body = Body::Text(body);
    }

    fn bad_query(&mut self, request: &mut Request, collection: &str, one: &str) {
        request.method = self.chance.word(&["GET", "GET", "POST", "PUT", "PATCH", "DELETE"]);
        let query = self.chance.word(QUERIES);
        let scope = format!("labelSelector=ep%3D{}", self.namespace);
        request.path = match request.method {
            "POST" => format!("{collection}?dryRun=All&{query}"),
            "GET" if self.chance.percent(70) => format!("{collection}?{query}&{scope}"),
            "GET" if !query.starts_with("resourceVersion") => format!("{one}?{query}"),
            "GET" => format!("{collection}?{query}&{scope}"),
            "DELETE" => format!("{one}-none?{query}"),
            _ => format!("{one}?dryRun=All&{query}"),
        };
        if query.starts_with("watch") && request.method == "GET" {
            request.path.push_str("&timeoutSeconds=1");
        }
        if query.starts_with("labelSelector") {
            request.path = request.path.replace(&format!("&{scope}"), "");
        }
        if request.method == "PATCH" {
            request.headers[0].1 = "application/merge-patch+json".to_owned();
        }
        request.body = Body::Text(if request.method == "DELETE" || request.method == "GET" {
            String::new()
        } else {
            json!({"metadata": {"name": "q"}}).to_string()
        });
    }
}
