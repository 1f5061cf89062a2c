//! Random requests on the objects of an episode: which, and those that carry a whole object.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

use crate::definitions::{GROUP, OWNER};
use crate::doubled::{self, Style};
use crate::episode::{Body, Edit, Episode, Request};

pub fn escape(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

impl Episode<'_> {
    pub fn next_request(&mut self) -> Request {
        let kinds = self.kinds.clone();
        let index = *self.chance.pick(&kinds);
        let kind = self.kind(index);
        match self.chance.below(100) {
            0..15 => self.create(index),
            15..32 => self.apply(index),
            32..46 => self.update(index),
            46..62 => self.patch(index),
            62..67 if kind.scale => self.scale(index),
            62..70 => self.get(index),
            70..80 => self.list(index),
            80..88 => self.delete(index),
            88..90 => self.delete_collection(index),
            _ => self.misfit(index),
        }
    }

    pub fn version(&mut self, index: usize) -> &'static str {
        self.chance.word(self.kind(index).versions)
    }

    /// A name of an object: mostly one of three, sometimes one that was generated, sometimes none that is allowed.
    pub fn name(&mut self, index: usize) -> String {
        let kind = self.kind(index);
        let generated: Vec<String> = self
            .known
            .keys()
            .filter(|(of, name)| *of == index && name.starts_with('@'))
            .map(|(_, name)| name.clone())
            .collect();
        if !generated.is_empty() && self.chance.percent(15) {
            return self.chance.pick(&generated).clone();
        }
        let name = self.chance.word(&["a", "b", "b", "c"]);
        if kind.settles() {
            return format!("{name}s.{}.capt.dev", self.namespace);
        }
        if kind.namespaced { name.to_owned() } else { format!("{}-{name}", self.namespace) }
    }

    pub fn collection(&self, index: usize, version: &str) -> String {
        self.kind(index).path(version, &self.namespace)
    }

    fn manager(&mut self) -> &'static str {
        self.chance.word(&["alpha", "beta", "gamma", "kubectl"])
    }

    /// Options that any write may have.
    pub fn options(&mut self) -> String {
        let mut out = format!("?fieldManager={}", self.manager());
        if self.chance.percent(8) {
            out = "?".to_owned();
        }
        if self.chance.percent(8) {
            out.push_str("&dryRun=All");
        }
        if self.chance.percent(3) {
            out.push_str(self.chance.word(&["&timeout=20s", "&timeout=1", "&timeout="]));
        }
        if self.chance.percent(40) {
            out.push_str(self.chance.word(&[
                "&fieldValidation=Strict",
                "&fieldValidation=Ignore",
                "&fieldValidation=Warn",
            ]));
        }
        out
    }

    pub fn json_headers(&mut self) -> Vec<(&'static str, String)> {
        let mut headers = vec![("content-type", "application/json".to_owned())];
        headers.push(("user-agent", self.chance.word(&["tester/1.0", "Other (x)", "kubectl/v1"]).to_owned()));
        headers.extend(self.accept());
        headers
    }

    pub fn accept(&mut self) -> Option<(&'static str, String)> {
        let accept = match self.chance.below(30) {
            0 => "application/yaml",
            1 => "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
            2 => "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json",
            3 => "*/*",
            4 => "application/json;as=Table;v=v1;g=meta.k8s.io",
            5 => "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
            _ => return None,
        };
        Some(("accept", accept.to_owned()))
    }

    pub fn metadata(&mut self) -> Map<String, Value> {
        let mut out = Map::new();
        if self.chance.percent(40) {
            out.insert("labels".into(), self.chance.entries(3, |chance| json!(chance.word(&["x", "y", ""]))));
        }
        if self.chance.percent(25) {
            out.insert("annotations".into(), self.chance.entries(3, crate::chance::Chance::text));
        }
        if self.chance.percent(12) {
            let finalizer: fn(&mut crate::chance::Chance) -> Value =
                |chance| json!(chance.word(&["x.y/a", "x.y/b", "x.y/c"]));
            out.insert("finalizers".into(), self.chance.distinct(3, finalizer, Value::eq));
        }
        if self.chance.percent(10) {
            let mut owner = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": OWNER, "uid": "@uid0@"});
            if self.chance.percent(30) {
                owner["controller"] = json!(self.chance.percent(50));
            }
            out.insert("ownerReferences".into(), json!([owner]));
        }
        if self.chance.percent(3) {
            let (name, value) = match self.chance.below(8) {
                0 => ("labels", json!({"bad key!": "v"})),
                1 => ("labels", json!({"k": "bad value!"})),
                2 => ("annotations", json!({"UPPER/x y": "v"})),
                3 => ("finalizers", json!(["nofinalizer!"])),
                4 => (
                    "ownerReferences",
                    json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "", "uid": ""}]),
                ),
                5 => ("unknownMeta", json!(1)),
                6 => ("labels", json!({"k": 1})),
                _ => ("generation", json!(77)),
            };
            out.insert(name.into(), value);
        }
        out
    }

    /// A whole object.
    pub fn object(&mut self, index: usize, version: &str, name: Option<&str>, status: bool) -> Value {
        let kind = self.kind(index);
        let mut metadata = self.metadata();
        if let Some(name) = name {
            metadata.insert("name".into(), json!(name));
        }
        if kind.namespaced && self.chance.percent(50) {
            metadata.insert("namespace".into(), json!(self.namespace));
        }
        if !kind.namespaced {
            // Lists of the whole cluster are narrowed to the episode by it.
            let labels = metadata.entry("labels").or_insert_with(|| json!({}));
            labels["ep"] = json!(self.namespace);
        }
        let mut out = Map::new();
        out.insert("apiVersion".into(), json!(kind.api_version(version)));
        out.insert("kind".into(), json!(kind.name));
        out.insert("metadata".into(), metadata.into());
        out.extend((kind.content)(&mut self.chance, status));
        let plural = name.and_then(|name| name.split('.').next()).unwrap_or("as");
        let text = Value::Object(out).to_string().replace("@ns@", &self.namespace);
        let text = text.replace("@plural@", plural).replace("@kind@", &plural.to_uppercase());
        serde_json::from_str(&text).unwrap()
    }

    fn create(&mut self, index: usize) -> Request {
        let version = self.version(index);
        let name = match self.chance.below(20) {
            0 => Some("Bad_Name".to_owned()),
            1 => Some("a".repeat(254)),
            2 => None,
            _ => Some(self.name(index)),
        };
        let name = name.filter(|name| !name.starts_with('@'));
        let mut object = self.object(index, version, name.as_deref(), false);
        if self.chance.percent(12) {
            let metadata = object["metadata"].as_object_mut().unwrap();
            metadata.shift_remove("name");
            let prefix = format!("{}-g{:02}-", self.namespace, self.count);
            metadata.insert(
                "generateName".into(),
                json!(if self.count.is_multiple_of(11) { "-Bad".to_owned() } else { prefix }),
            );
        }
        if self.chance.percent(3) {
            object["metadata"]["resourceVersion"] = json!("1");
        }
        if self.chance.percent(2) {
            object["metadata"]["namespace"] = json!("other");
        }
        let path = format!("{}{}", self.collection(index, version), self.options());
        let mut headers = self.json_headers();
        let mut body = object.to_string();
        if self.chance.percent(10) {
            headers[0].1 = "application/yaml".to_owned();
            body = serde_saphyr::to_string(&object).unwrap();
            if self.chance.percent(40) {
                let style = Style::yaml(&mut self.chance);
                body = doubled::text(&mut self.chance, &object, style);
            }
        } else if self.chance.percent(4) {
            let style = Style::json(&mut self.chance);
            body = doubled::text(&mut self.chance, &object, style);
        }
        Request {
            method: "POST",
            path,
            headers,
            body: Body::Text(body),
            about: Some((index, name.unwrap_or_default())),
        }
    }

    pub fn one(&mut self, index: usize, version: &str, name: &str) -> (String, bool) {
        let status = self.kind(index).status && self.chance.percent(25);
        let path =
            format!("{}/{name}{}", self.collection(index, version), if status { "/status" } else { "" });
        (path, status)
    }

    fn apply(&mut self, index: usize) -> Request {
        let (version, name) = (self.version(index), self.name(index));
        let (path, status) = self.one(index, version, &name);
        let object = self.object(index, version, Some(&name), status);
        let mut path = format!("{path}{}", self.options());
        if self.chance.percent(40) {
            path.push_str("&force=true");
        }
        let mut headers = self.json_headers();
        headers[0].1 = "application/apply-patch+yaml".to_owned();
        let body = if self.chance.percent(30) {
            serde_saphyr::to_string(&object).unwrap()
        } else if self.chance.percent(8) {
            let style = Style::yaml(&mut self.chance);
            doubled::text(&mut self.chance, &object, style)
        } else {
            object.to_string()
        };
        Request { method: "PATCH", path, headers, body: Body::Text(body), about: Some((index, name)) }
    }

    fn update(&mut self, index: usize) -> Request {
        let (version, name) = (self.version(index), self.name(index));
        let (path, status) = self.one(index, version, &name);
        let path = format!("{path}{}", self.options());
        let headers = self.json_headers();
        let about = Some((index, name.clone()));
        if !self.known.contains_key(&(index, name.clone())) || self.chance.percent(12) {
            let object = self.object(index, version, Some(&name), status);
            let mut body = object.to_string();
            if self.chance.percent(20) {
                let style = Style::json(&mut self.chance);
                body = doubled::text(&mut self.chance, &object, style);
            }
            return Request { method: "PUT", path, headers, body: Body::Text(body), about };
        }
        let mut edits = vec![Edit::Set("/apiVersion", json!(self.kind(index).api_version(version)))];
        let fresh = self.object(index, version, Some(&name), status);
        for (member, at) in [
            ("spec", "/spec"),
            ("status", "/status"),
            ("data", "/data"),
            ("rules", "/rules"),
            ("type", "/type"),
            ("subjects", "/subjects"),
            ("stringData", "/stringData"),
            ("roleRef", "/roleRef"),
            ("message", "/message"),
            ("series", "/series"),
            ("count", "/count"),
            ("secrets", "/secrets"),
            ("immutable", "/immutable"),
        ] {
            if let (Some(value), true) = (fresh.get(member), self.chance.percent(70)) {
                edits.push(if self.chance.percent(60) {
                    Edit::Merge(at, value.clone())
                } else {
                    Edit::Set(at, value.clone())
                });
            }
        }
        for (member, at) in [
            ("labels", "/metadata/labels"),
            ("annotations", "/metadata/annotations"),
            ("finalizers", "/metadata/finalizers"),
        ] {
            if let Some(value) = fresh["metadata"].get(member) {
                edits.push(Edit::Set(at, value.clone()));
            }
        }
        edits.extend(self.identity_edit(self.kind(index).group == GROUP));
        Request { method: "PUT", path, headers, body: Body::Changed(edits), about }
    }

    /// Sometimes an update says something else about which object it means.
    fn identity_edit(&mut self, custom: bool) -> Option<Edit> {
        let old = self.pairs.revisions.all.len();
        Some(match self.chance.below(30) {
            0..6 => Edit::Remove("/metadata/resourceVersion"),
            6..8 if old > 0 => {
                Edit::Set("/metadata/resourceVersion", json!(format!("@rv{}@", self.chance.below(old))))
            }
            8 => Edit::Set("/metadata/resourceVersion", json!("0")),
            9 => Edit::Set("/metadata/resourceVersion", json!("x")),
            10 => Edit::Set("/metadata/uid", json!("another")),
            11 => Edit::Remove("/metadata/uid"),
            12 => Edit::Set("/metadata/name", json!("another")),
            13 => Edit::Set("/metadata/namespace", json!("another")),
            14 => Edit::Remove("/metadata/managedFields"),
            15 => Edit::Set("/metadata/managedFields", json!([])),
            16 => Edit::Set("/metadata/managedFields", json!([{}])),
            17 => Edit::Set("/metadata/creationTimestamp", json!("2020-01-01T00:00:00Z")),
            18 => Edit::Remove("/metadata/finalizers"),
            19 if !custom => Edit::Set("/kind", json!(self.chance.word(&["Another", "ConfigMap"]))),
            20 => Edit::Set("/metadata/generation", json!(99)),
            21 => Edit::Set("/metadata/deletionTimestamp", json!("2020-01-01T00:00:00Z")),
            _ => return None,
        })
    }
}
