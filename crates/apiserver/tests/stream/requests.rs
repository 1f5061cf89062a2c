//! Random requests on the objects of an episode.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

use crate::definitions::OWNER;
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
        if kind.namespaced { name.to_owned() } else { format!("{}-{name}", self.namespace) }
    }

    pub fn collection(&self, index: usize, version: &str) -> String {
        self.kind(index).path(version, &self.namespace)
    }

    fn manager(&mut self) -> &'static str {
        self.chance.word(&["alpha", "beta", "gamma", "kubectl"])
    }

    /// Options that any write may have.
    fn options(&mut self) -> String {
        let mut out = format!("?fieldManager={}", self.manager());
        if self.chance.percent(8) {
            out = "?".to_owned();
        }
        if self.chance.percent(8) {
            out.push_str("&dryRun=All");
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

    fn json_headers(&mut self) -> Vec<(&'static str, String)> {
        let mut headers = vec![("content-type", "application/json".to_owned())];
        headers.push(("user-agent", self.chance.word(&["tester/1.0", "Other (x)", "kubectl/v1"]).to_owned()));
        headers.extend(self.accept());
        headers
    }

    fn accept(&mut self) -> Option<(&'static str, String)> {
        let accept = match self.chance.below(30) {
            0 => "application/yaml",
            1 => "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
            2 => "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json",
            3 => "*/*",
            _ => return None,
        };
        Some(("accept", accept.to_owned()))
    }

    pub fn metadata(&mut self) -> Map<String, Value> {
        let mut out = Map::new();
        if self.chance.percent(40) {
            out.insert("labels".into(), self.chance.some(3, |chance| json!(chance.word(&["x", "y", ""]))));
        }
        if self.chance.percent(25) {
            out.insert("annotations".into(), self.chance.some(3, crate::chance::Chance::text));
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
        let text = Value::Object(out).to_string().replace("@ns@", &self.namespace);
        serde_json::from_str(&text).unwrap()
    }

    fn create(&mut self, index: usize) -> Request {
        let kind = self.kind(index);
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
                json!(if self.count.is_multiple_of(11) && kind.plural != "namespaces" {
                    "-Bad".to_owned()
                } else {
                    prefix
                }),
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
        }
        Request {
            method: "POST",
            path,
            headers,
            body: Body::Text(body),
            about: Some((index, name.unwrap_or_default())),
        }
    }

    fn one(&mut self, index: usize, version: &str, name: &str) -> (String, bool) {
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
            return Request { method: "PUT", path, headers, body: Body::Text(object.to_string()), about };
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
        edits.extend(self.identity_edit());
        Request { method: "PUT", path, headers, body: Body::Changed(edits), about }
    }

    /// Sometimes an update says something else about which object it means.
    fn identity_edit(&mut self) -> Option<Edit> {
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
            20 => Edit::Set("/metadata/generation", json!(99)),
            21 => Edit::Set("/metadata/deletionTimestamp", json!("2020-01-01T00:00:00Z")),
            _ => return None,
        })
    }

    fn patch(&mut self, index: usize) -> Request {
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
        Request {
            method: "PATCH",
            path,
            headers,
            body: Body::Text(body.to_string()),
            about: Some((index, name)),
        }
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

    fn scale(&mut self, index: usize) -> Request {
        let (version, name) = (self.version(index), self.name(index));
        let path = format!("{}/{name}/scale", self.collection(index, version));
        let mut headers = vec![("content-type", "application/json".to_owned())];
        let replicas = *self.chance.pick(&[0, 1, 4, 8, 15, -1]);
        let mut scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name, "namespace": self.namespace}, "spec": {"replicas": replicas}});
        // Upstream tracks a write of the scale only where somebody manages the replicas already.
        let options = format!("{}&dryRun=All", self.options().replace("&dryRun=All", ""));
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
            // Nothing is applied to it: upstream fails where nobody manages the replicas.
            _ => ("GET", path, String::new()),
        };
        Request { method, path, headers, body: Body::Text(body), about: Some((index, name)) }
    }

    fn get(&mut self, index: usize) -> Request {
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
        ]);
        let headers = self.accept().into_iter().collect();
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

    fn list(&mut self, index: usize) -> Request {
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
        // Elsewhere the real server has objects of its own behind those of the episode.
        // And pages of all namespaces, narrowed to one by a selector, begin again there.
        if path.contains("/namespaces/") && self.chance.percent(35) {
            path.push_str(&format!("&limit={}", 1 + self.chance.below(3)));
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

    /// Options of a deletion that needs no controller to go through.
    fn delete_options(&mut self, name: Option<&str>, index: usize) -> Value {
        let mut options = json!({});
        match self.chance.below(14) {
            0 => options["preconditions"] = json!({"uid": "another"}),
            1 => options["preconditions"] = json!({"resourceVersion": "1"}),
            2 => options["gracePeriodSeconds"] = json!(*self.chance.pick(&[0, 5, -1])),
            3 => options["propagationPolicy"] = json!("Background"),
            4 => {
                options["propagationPolicy"] = json!(self.chance.word(&["Foreground", "Orphan"]));
                options["dryRun"] = json!(["All"]);
            }
            5 => options["dryRun"] = json!(["All"]),
            6 => options["propagationPolicy"] = json!("Never"),
            7 | 8 => {
                let known = name.and_then(|name| self.known.get(&(index, name.to_owned())));
                if let Some(uid) = known.and_then(|known| known.real["metadata"]["uid"].as_str())
                    && let Some(found) = self.pairs.uids.all.iter().position(|pair| pair.0 == uid)
                {
                    options["preconditions"] = json!({"uid": format!("@uid{found}@")});
                }
            }
            9 => {
                options["orphanDependents"] = json!(false);
                options["dryRun"] = json!(["All"]);
            }
            _ => {}
        }
        options
    }

    fn delete(&mut self, index: usize) -> Request {
        let (version, name) = (self.version(index), self.name(index));
        let mut path = format!("{}/{name}", self.collection(index, version));
        let headers = self.json_headers();
        let mut options = self.delete_options(Some(&name), index);
        if self.kind(index).plural == "namespaces" {
            // The real server has nobody to end a namespace.
            options["dryRun"] = json!(["All"]);
        }
        let dry = options.get("dryRun").is_some();
        let simple = options.get("preconditions").is_none() && !options.as_object().unwrap().is_empty();
        let body = if simple && self.chance.percent(40) {
            let pairs: Vec<String> = options
                .as_object()
                .unwrap()
                .iter()
                .map(|(key, value)| match value {
                    Value::Array(_) => format!("{key}=All"),
                    Value::String(text) => format!("{key}={text}"),
                    other => format!("{key}={other}"),
                })
                .collect();
            path = format!("{path}?{}", pairs.join("&"));
            String::new()
        } else if options.as_object().unwrap().is_empty() && self.chance.percent(50) {
            String::new()
        } else {
            // What only a dry run may be remembered by.
            path.push_str(if dry { "?note=dryRun=All" } else { "" });
            options.to_string()
        };
        Request { method: "DELETE", path, headers, body: Body::Text(body), about: Some((index, name)) }
    }

    fn delete_collection(&mut self, index: usize) -> Request {
        let path = self.listing(index);
        let kind = self.kind(index);
        let whole = kind.namespaced && !path.contains("/namespaces/");
        // Never more than this episode has made.
        let path = if whole { format!("{}?", self.collection(index, kind.versions[0])) } else { path };
        let headers = vec![("content-type", "application/json".to_owned())];
        let options = match self.chance.below(4) {
            0 => json!({"dryRun": ["All"]}).to_string(),
            1 => json!({"propagationPolicy": "Background"}).to_string(),
            _ => String::new(),
        };
        Request { method: "DELETE", path, headers, body: Body::Text(options), about: None }
    }
}
