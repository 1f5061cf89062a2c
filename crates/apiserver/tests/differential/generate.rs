//! Random parts of objects. Few names and few values, so that writers meet.

use rand::{Rng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Map, Value, json};

/// How a member is made up.
type Member = fn(&mut Generate) -> Value;

pub struct Generate {
    pub random: StdRng,
}

impl Generate {
    pub fn chance(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100) < percent
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        of.choose(&mut self.random).unwrap()
    }

    fn text(&mut self) -> Value {
        json!(*self.pick(&["a", "b", "c", "", "a<b&c>\"d\"", "ünï"]))
    }

    fn name(&mut self) -> &'static str {
        const NAMES: [&str; 4] = ["a", "b", "c", "d.e/f"];
        self.pick::<&'static str>(&NAMES)
    }

    fn number(&mut self) -> Value {
        json!(*self.pick(&[0, 1, 2, 80, 443, 1_234_567]))
    }

    /// Up to `most` values with different names.
    fn entries(&mut self, most: usize, mut value: impl FnMut(&mut Self) -> Value) -> Value {
        let mut out = Map::new();
        for _ in 0..self.random.random_range(0..=most) {
            let name = self.name();
            out.insert(name.to_owned(), value(self));
        }
        Value::Object(out)
    }

    fn list(&mut self, most: usize, mut value: impl FnMut(&mut Self) -> Value) -> Value {
        let count = self.random.random_range(0..=most);
        Value::Array((0..count).map(|_| value(self)).collect())
    }

    /// Mostly without duplicates.
    fn set(&mut self, most: usize, value: impl FnMut(&mut Self) -> Value) -> Value {
        let Value::Array(items) = self.list(most, value) else { unreachable!() };
        if self.chance(3) {
            return Value::Array(items);
        }
        let mut out: Vec<Value> = Vec::new();
        for item in items {
            if !out.contains(&item) {
                out.push(item);
            }
        }
        Value::Array(out)
    }

    fn keyed(&mut self, most: usize, keys: &[&str], value: impl FnMut(&mut Self) -> Value) -> Value {
        let Value::Array(items) = self.list(most, value) else { unreachable!() };
        if self.chance(3) {
            return Value::Array(items);
        }
        let mut out: Vec<Value> = Vec::new();
        for item in items {
            let key = |item: &Value| keys.iter().map(|key| item[*key].clone()).collect::<Vec<_>>();
            if out.iter().all(|other| key(other) != key(&item)) {
                out.push(item);
            }
        }
        Value::Array(out)
    }

    fn members(&mut self, percent: u32, of: &[(&str, Member)]) -> Value {
        let mut out = Map::new();
        for (name, value) in of {
            if self.chance(percent) {
                out.insert((*name).to_owned(), value(self));
            }
        }
        Value::Object(out)
    }

    fn anything(&mut self, depth: u32) -> Value {
        match self.random.random_range(0..if depth == 0 { 4 } else { 7 }) {
            0 => self.text(),
            1 => self.number(),
            2 => json!(self.chance(50)),
            3 => json!(1.5),
            4 => self.entries(2, |this| this.anything(depth - 1)),
            5 => self.list(2, |this| this.anything(depth - 1)),
            _ => self.entries(3, |this| this.anything(depth - 1)),
        }
    }

    fn port(&mut self) -> Value {
        let port = self.number();
        let mut out = self.members(
            40,
            &[
                ("protocol", |this| json!(*this.pick(&["TCP", "UDP"]))),
                ("name", Self::text),
                ("options", |this| this.entries(2, Self::text)),
                ("tags", |this| this.set(2, Self::text)),
            ],
        );
        out["port"] = port;
        out
    }

    fn item(&mut self) -> Value {
        let name = self.name();
        let mut out = self.members(
            50,
            &[
                ("value", Self::text),
                ("sub", |this| {
                    this.keyed(3, &["id"], |this| {
                        let id = this.number();
                        let mut sub = this.members(60, &[("v", Self::text)]);
                        sub["id"] = id;
                        sub
                    })
                }),
            ],
        );
        out["name"] = json!(name);
        out
    }

    fn inner(&mut self) -> Value {
        self.members(
            50,
            &[
                ("a", Self::text),
                ("b", Self::text),
                ("deep", |this| {
                    this.entries(2, |this| this.members(60, &[("x", Self::number), ("y", Self::text)]))
                }),
            ],
        )
    }

    pub fn spec(&mut self, percent: u32) -> Value {
        let mut spec = self.members(
            percent,
            &[
                ("text", Self::text),
                ("number", Self::number),
                ("ratio", |this| json!(*this.pick(&[0.5, 1.0, 2.5e-7]))),
                ("flag", |this| json!(this.chance(50))),
                ("maybe", |this| if this.chance(30) { Value::Null } else { this.text() }),
                ("defaulted", Self::text),
                ("either", |this| if this.chance(50) { this.text() } else { this.number() }),
                ("entries", |this| this.entries(3, Self::text)),
                ("fixed", |this| this.members(50, &[("a", Self::text), ("b", Self::number)])),
                ("nested", |this| this.members(80, &[("inner", Self::inner)])),
                ("list", |this| this.list(3, Self::text)),
                ("set", |this| this.set(4, Self::text)),
                ("numbers", |this| this.set(4, Self::number)),
                ("ports", |this| this.keyed(4, &["port", "protocol"], Self::port)),
                ("items", |this| this.keyed(4, &["name"], Self::item)),
                ("atoms", |this| {
                    this.keyed(3, &["name"], |this| {
                        let name = this.name();
                        let mut item = this.members(60, &[("value", Self::text)]);
                        item["name"] = json!(name);
                        item
                    })
                }),
                ("free", |this| this.entries(3, |this| this.anything(3))),
                ("mixed", |this| {
                    let mut mixed = this.entries(2, |this| this.anything(2));
                    if this.chance(50) {
                        mixed["known"] = this.text();
                    }
                    if this.chance(50) {
                        mixed["set"] = this.set(3, Self::text);
                    }
                    mixed
                }),
                ("any", |this| this.anything(3)),
            ],
        );
        if self.chance(4) {
            spec["unknown"] = json!(1);
        }
        if self.chance(3) {
            spec["number"] = json!("text");
        }
        if self.chance(4) {
            let name =
                *self.pick(&["entries", "set", "nested", "ports", "defaulted", "free", "text", "fixed"]);
            spec[name] = Value::Null;
        }
        spec
    }

    pub fn status(&mut self) -> Value {
        self.members(
            50,
            &[
                ("phase", Self::text),
                ("conditions", |this| {
                    this.keyed(3, &["type"], |this| {
                        let of = this.name();
                        let mut out = this.members(60, &[("status", Self::text), ("message", Self::text)]);
                        out["type"] = json!(of);
                        out
                    })
                }),
                ("entries", |this| this.entries(2, Self::text)),
            ],
        )
    }

    /// Labels, annotations, finalizers and owners.
    pub fn metadata(&mut self) -> Map<String, Value> {
        let labels = |this: &mut Self| this.entries(3, |this| json!(*this.pick(&["x", "y", ""])));
        let mut out = Map::new();
        if self.chance(40) {
            out.insert("labels".to_owned(), labels(self));
        }
        if self.chance(30) {
            out.insert("annotations".to_owned(), self.entries(3, Self::text));
        }
        if self.chance(20) {
            out.insert(
                "finalizers".to_owned(),
                self.set(3, |this| json!(*this.pick(&["x.y/a", "x.y/b", "x.y/c"]))),
            );
        }
        if self.chance(20) {
            // The server drops duplicate owners, before or after it tracks the write; that is not modelled.
            let mut owners = Vec::new();
            for uid in ["u1", "u2", "u3"] {
                let name = *self.pick(&["o1", "o2"]);
                if self.chance(50) {
                    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid});
                    owners.insert(self.random.random_range(0..=owners.len()), owner);
                }
            }
            out.insert("ownerReferences".to_owned(), Value::Array(owners));
        }
        out
    }

    /// A JSON patch of a few operations on what is there.
    pub fn json_patch(&mut self, live: &Value, root: &str) -> Value {
        let mut operations = Vec::new();
        for _ in 0..self.random.random_range(1..=3) {
            let names: Vec<String> =
                live[root].as_object().map(|members| members.keys().cloned().collect()).unwrap_or_default();
            let fresh = if root == "spec" { self.spec(20) } else { self.status() };
            let fresh: Vec<(String, Value)> = fresh.as_object().unwrap().clone().into_iter().collect();
            let operation = match self.random.random_range(0..4) {
                0 if !names.is_empty() => {
                    json!({"op": "remove", "path": format!("/{root}/{}", self.pick(&names))})
                }
                1 if !names.is_empty() => {
                    let name = self.pick(&names).clone();
                    json!({"op": "test", "path": format!("/{root}/{name}"), "value": live[root][&name]})
                }
                _ if !fresh.is_empty() => {
                    let (name, value) = self.pick(&fresh).clone();
                    let op = if self.chance(50) { "add" } else { "replace" };
                    json!({"op": op, "path": format!("/{root}/{name}"), "value": value})
                }
                _ => json!({"op": "add", "path": format!("/{root}/nothing/there"), "value": 1}),
            };
            operations.push(operation);
        }
        Value::Array(operations)
    }
}
