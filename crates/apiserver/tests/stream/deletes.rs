//! Random deletions, of one object and of many.

use serde_json::{Value, json};

use crate::episode::{Body, Episode, Request};

impl Episode<'_> {
    /// Options of a deletion.
    fn delete_options(&mut self, name: Option<&str>, index: usize) -> Value {
        let mut options = json!({});
        match self.chance.below(14) {
            0 => options["preconditions"] = json!({"uid": "another"}),
            1 => options["preconditions"] = json!({"resourceVersion": "1"}),
            2 => options["gracePeriodSeconds"] = json!(*self.chance.pick(&[0, 5, -1])),
            3 => options["propagationPolicy"] = json!("Background"),
            4 => {
                options["propagationPolicy"] = json!(self.chance.word(&["Foreground", "Orphan"]));
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
                options["orphanDependents"] = json!(self.chance.percent(50));
            }
            _ => {}
        }
        options
    }

    pub fn delete(&mut self, index: usize) -> Request {
        let (version, name) = (self.version(index), self.name(index));
        let mut path = format!("{}/{name}", self.collection(index, version));
        let headers = self.json_headers();
        let options = self.delete_options(Some(&name), index);
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

    pub fn delete_collection(&mut self, index: usize) -> Request {
        let path = self.listing(index);
        let kind = self.kind(index);
        let whole = kind.namespaced && !path.contains("/namespaces/");
        // Never more than this episode has made.
        let path = if whole { format!("{}?", self.collection(index, kind.versions[0])) } else { path };
        let headers = vec![("content-type", "application/json".to_owned())];
        // Of definitions, upstream leaves the objects behind then.
        let choice = if kind.settles() { 0 } else { self.chance.below(4) };
        let options = match choice {
            0 => json!({"dryRun": ["All"]}).to_string(),
            1 => json!({"propagationPolicy": "Background"}).to_string(),
            _ => String::new(),
        };
        Request { method: "DELETE", path, headers, body: Body::Text(options), about: None }
    }
}
