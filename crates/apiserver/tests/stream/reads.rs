//! Random reads: of one object, of its scale, of a collection. The scale is written here, too.

use serde_json::json;

use crate::episode::{Body, Episode, Request};
use crate::requests::escape;

/// A revision that no server comes to.
const AHEAD: &str = "?resourceVersion=4000000000";

impl Episode<'_> {
    pub fn scale(&mut self, index: usize) -> Request {
        let (version, name) = (self.version(index), self.name(index));
        let path = format!("{}/{name}/scale", self.collection(index, version));
        let mut headers = vec![("content-type", "application/json".to_owned())];
        headers.extend(self.accept());
        let replicas = *self.chance.pick(&[0, 1, 4, 8, 15, -1]);
        let mut scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name, "namespace": self.namespace}, "spec": {"replicas": replicas}});
        let options = self.options();
        let (method, path, body) = match self.chance.below(12) {
            3..6 => {
                match self.chance.below(6) {
                    0 => scale["metadata"]["resourceVersion"] = json!("1"),
                    1 => scale["metadata"]["name"] = json!("another"),
                    _ => {}
                }
                ("PUT", format!("{path}{options}"), scale.to_string())
            }
            6..9 => {
                headers[0].1 = "application/merge-patch+json".to_owned();
                ("PATCH", format!("{path}{options}"), json!({"spec": {"replicas": replicas}}).to_string())
            }
            9 => {
                headers[0].1 = "application/json-patch+json".to_owned();
                let patch = json!([{"op": "replace", "path": "/spec/replicas", "value": replicas}]);
                ("PATCH", format!("{path}{options}"), patch.to_string())
            }
            10 => {
                headers[0].1 = "application/apply-patch+yaml".to_owned();
                ("PATCH", format!("{path}{options}"), scale.to_string())
            }
            _ => ("GET", path, String::new()),
        };
        Request { method, path, headers, body: Body::Text(body), about: Some((index, name)) }
    }

    pub fn get(&mut self, index: usize) -> Request {
        let (version, name) = (self.version(index), self.name(index));
        let (path, _) = self.one(index, version, &name);
        let suffix = self.chance.word(&[
            "",
            "",
            "",
            "",
            "?resourceVersion=0",
            "?pretty=true",
            "?resourceVersion=1",
            "?includeObject=Object",
            "?timeout=20s",
            "?timeout=x",
        ]);
        let headers = self.accept().into_iter().collect();
        let suffix = if self.chance.percent(2) { AHEAD } else { suffix };
        let method = if self.chance.percent(4) { "HEAD" } else { "GET" };
        Request {
            method,
            path: format!("{path}{suffix}"),
            headers,
            body: Body::Text(String::new()),
            about: Some((index, name)),
        }
    }

    /// A path of the collection that both servers have the same objects in, with the selectors that make it so.
    pub fn listing(&mut self, index: usize) -> String {
        let (kind, version) = (self.kind(index), self.version(index));
        let mut fields = Vec::new();
        let mut path = self.collection(index, version);
        if kind.namespaced && self.chance.percent(15) {
            path = path.replace(&format!("/namespaces/{}", self.namespace), "");
            fields.push(format!("metadata.namespace={}", self.namespace));
        }
        let mut labels = Vec::new();
        if !kind.namespaced {
            labels.push(format!("ep={}", self.namespace));
        }
        if self.chance.percent(35) {
            labels.push(
                self.chance
                    .word(&[
                        "a",
                        "!b",
                        "a=x",
                        "b!=y",
                        "a in (x,y)",
                        "c notin (x)",
                        "b=",
                        "a==x",
                        "a,!c",
                        "a in ()",
                        "a>1",
                        "=x",
                        "a in (x",
                        "d.e/f=x",
                    ])
                    .to_owned(),
            );
        }
        if self.chance.percent(20) {
            let name = self.name(index);
            fields.push(format!("metadata.name{}{name}", self.chance.word(&["=", "!=", "=="])));
        }
        if self.chance.percent(25) && !kind.selectable.is_empty() {
            let value = self
                .chance
                .word(&["red", "blue", "1", "true", "false", "Opaque", "Made", "m1", "Normal", "Active", ""]);
            fields.push(format!("{}={value}", self.chance.word(kind.selectable)));
        }
        if self.chance.percent(2) {
            fields.push("spec.nothing=x".to_owned());
        }
        let mut path = format!("{path}?");
        if !labels.is_empty() {
            path.push_str(&format!("&labelSelector={}", escape(&labels.join(","))));
        }
        if !fields.is_empty() {
            // Placeholders stay as they are.
            path.push_str(&format!(
                "&fieldSelector={}",
                fields.join(",").replace('=', "%3D").replace('!', "%21")
            ));
        }
        path
    }

    pub fn list(&mut self, index: usize) -> Request {
        let headers = self.list_accept().into_iter().collect();
        let request = |path: String| Request {
            method: "GET",
            path,
            headers,
            body: Body::Text(String::new()),
            about: None,
        };
        if let Some((path, token)) = self.more.take()
            && self.chance.percent(80)
        {
            return request(format!("{path}&continue=@token{token}@"));
        }
        let mut path = self.listing(index);
        if self.chance.percent(35) {
            path.push_str(&format!("&limit={}", 1 + self.chance.below(3)));
        }
        if self.chance.percent(3) {
            path.push_str(&format!("&{}", &AHEAD[1..]));
            path.push_str(self.chance.word(&[
                "",
                "&resourceVersionMatch=NotOlderThan",
                "&resourceVersionMatch=Exact",
                "&watch=true&timeoutSeconds=1",
                "&watch=true&timeoutSeconds=5&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
            ]));
            return request(path);
        }
        let moments = self.pairs.moments.all.len();
        match self.chance.below(12) {
            0 => path.push_str("&resourceVersion=0"),
            1 => path.push_str("&resourceVersion=0&resourceVersionMatch=NotOlderThan"),
            2 | 3 => {
                let moment = self.chance.below(moments);
                path.push_str(&format!("&resourceVersion=@at{moment}@&resourceVersionMatch=Exact"));
            }
            4 => path.push_str(&format!("&resourceVersion=@at{}@", moments - 1)),
            _ => {}
        }
        request(path)
    }

    fn list_accept(&mut self) -> Option<(&'static str, String)> {
        let accept = match self.chance.below(10) {
            0 => "application/yaml",
            1 | 2 => "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
            3 => "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json",
            _ => return None,
        };
        Some(("accept", accept.to_owned()))
    }
}
