//! Random patches of the objects of an episode.

use serde_json::{Value, json};

use crate::doubled::{self, Style};
use crate::episode::{Body, Episode, Request};

impl Episode<'_> {
    pub fn patch(&mut self, index: usize) -> Request {
        let (version, name) = (self.version(index), self.name(index));
        let (path, status) = self.one(index, version, &name);
        let path = format!("{path}{}", self.options());
        let mut headers = self.json_headers();
        let (of, body) = match self.chance.below(10) {
            0..4 => ("merge-patch+json", self.merge_patch(index, version, &name, status)),
            4..7 => ("json-patch+json", self.json_patch(index, &name, status)),
            _ => ("strategic-merge-patch+json", self.strategic_patch(index, version, &name, status)),
        };
        headers[0].1 = format!("application/{of}");
        let mut text = body.to_string();
        if self.chance.percent(4) {
            let style = Style::json(&mut self.chance);
            text = doubled::text(&mut self.chance, &body, style);
        }
        Request { method: "PATCH", path, headers, body: Body::Text(text), about: Some((index, name)) }
    }

    pub fn merge_patch(&mut self, index: usize, version: &str, name: &str, status: bool) -> Value {
        let mut patch = self.object(index, version, None, status);
        let members = patch.as_object_mut().unwrap();
        if self.chance.percent(80) {
            members.shift_remove("kind");
            members.shift_remove("apiVersion");
        }
        let names: Vec<String> = self
            .known
            .get(&(index, name.to_owned()))
            .and_then(|known| known.real.as_object())
            .into_iter()
            .flat_map(|object| {
                object
                    .keys()
                    .filter(|key| !["metadata", "kind", "apiVersion"].contains(&key.as_str()))
                    .cloned()
            })
            .collect();
        if !names.is_empty() && self.chance.percent(20) {
            members.insert(self.chance.pick(&names).clone(), Value::Null);
        }
        match self.chance.below(25) {
            0 => patch["metadata"]["finalizers"] = Value::Null,
            1 => patch["metadata"]["labels"] = json!({"a": null, "b": null}),
            2 => patch["metadata"]["resourceVersion"] = json!("1"),
            3 => patch["metadata"]["uid"] = json!("another"),
            4 => patch["metadata"]["name"] = json!("another"),
            5 => patch["metadata"]["annotations"] = Value::Null,
            6 => patch["metadata"]["managedFields"] = Value::Null,
            7 if !self.pairs.revisions.all.is_empty() => {
                let last = self.pairs.revisions.all.len() - 1;
                patch["metadata"]["resourceVersion"] = json!(format!("@rv{last}@"));
            }
            _ => {}
        }
        patch
    }

    fn strategic_patch(&mut self, index: usize, version: &str, name: &str, status: bool) -> Value {
        let mut patch = self.merge_patch(index, version, name, status);
        match self.chance.below(12) {
            0 => patch["metadata"] = json!({"$deleteFromPrimitiveList/finalizers": ["x.y/a", "x.y/b"]}),
            1 => patch["metadata"]["labels"] = json!({"$patch": "replace", "z": "z"}),
            2 => patch["metadata"]["ownerReferences"] = json!([{"$patch": "delete", "uid": "@uid0@"}]),
            3 => patch["data"] = json!({"$retainKeys": ["a"], "a": "YQ=="}),
            4 => patch["metadata"]["$setElementOrder/finalizers"] = json!(["x.y/c", "x.y/b", "x.y/a"]),
            5 => patch["imagePullSecrets"] = json!([{"name": "a", "$patch": "delete"}, {"name": "d"}]),
            6 => patch["$patch"] = json!(self.chance.word(&["replace", "delete", "strange"])),
            _ => {}
        }
        patch
    }

    fn json_patch(&mut self, index: usize, name: &str, status: bool) -> Value {
        let fresh = self.object(index, self.kind(index).versions[0], None, status);
        let known =
            self.known.get(&(index, name.to_owned())).map(|known| known.real.clone()).unwrap_or_default();
        let mut operations = Vec::new();
        for _ in 0..=self.chance.below(3) {
            let members: Vec<(String, Value)> =
                fresh.as_object().unwrap().clone().into_iter().skip(2).collect();
            let (member, value) = self.chance.pick(&members).clone();
            let inner: Vec<String> =
                known[&member].as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect();
            let inner: Vec<String> = inner
                .into_iter()
                .filter(|key| {
                    member != "metadata" || ["labels", "annotations", "finalizers"].contains(&key.as_str())
                })
                .collect();
            let below =
                (!inner.is_empty()).then(|| self.chance.pick(&inner).replace('~', "~0").replace('/', "~1"));
            let path =
                below.as_ref().map_or_else(|| format!("/{member}"), |below| format!("/{member}/{below}"));
            let value = if let (Some(below), Value::Object(members)) = (&below, &value) {
                members.get(below).cloned().unwrap_or(json!("x"))
            } else {
                value
            };
            operations.push(match self.chance.below(12) {
                _ if path == "/metadata" => json!({"op": "add", "path": "/metadata/labels", "value": {"p": "q"}}),
                0..3 => json!({"op": "remove", "path": path}),
                3..6 => json!({"op": "replace", "path": path, "value": value}),
                6 => json!({"op": "test", "path": path, "value": value}),
                7 => json!({"op": "copy", "from": path, "path": "/metadata/annotations/copied"}),
                8 => json!({"op": "move", "from": path, "path": "/data"}),
                9 => json!({"op": self.chance.word(&["add", "bad", "test"]), "path": self.chance.word(&["/spec/list/-", "/nothing/there", "noslash", "/metadata/finalizers/0"]), "value": "v"}),
                _ => json!({"op": "add", "path": path, "value": value}),
            });
        }
        operations.into()
    }
}
