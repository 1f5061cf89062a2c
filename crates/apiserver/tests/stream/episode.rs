//! One episode: a fresh namespace, a few kinds, and some dozens of requests that meet the same few objects. It ends
//! with the first difference, because what follows one says nothing new.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use crate::chance::Chance;
use crate::compare;
use crate::definitions::OWNER;
use crate::kinds::{KINDS, Kind};
use crate::pairs::{Pairs, Which};
use crate::side::{Answer, Asked, Sides};

/// Requests of an episode.
const LENGTH: usize = 60;
/// Reads from a cache may be a moment behind, and a long one on a busy machine.
const CAUGHT_UP: Duration = Duration::from_secs(30);
/// A definition is accepted, or gone, a moment after it was written; kube-apiserver waits longer where it failed first.
const SETTLED: Duration = Duration::from_secs(120);

#[derive(Default)]
pub struct Tally {
    pub requests: u64,
    pub events: u64,
    pub codes: BTreeMap<u16, u64>,
    pub differences: Vec<String>,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} requests and {} watch events compared, answers by code: {:?}",
            self.requests, self.events, self.codes
        )
    }
}

/// A change of one member of an object.
#[derive(Clone, Debug)]
pub enum Edit {
    Set(&'static str, Value),
    /// Adds members to those that are there.
    Merge(&'static str, Value),
    Remove(&'static str),
}

#[derive(Clone, Debug)]
pub enum Body {
    Text(String),
    /// The object as the server last told it, with changes.
    Changed(Vec<Edit>),
}

/// A request to both servers, with placeholders for what they call differently.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: &'static str,
    pub path: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: Body,
    /// The kind and name it is about.
    pub about: Option<(usize, String)>,
}

/// An object as each server last told it.
pub struct Known {
    pub real: Value,
    pub ours: Value,
}

pub struct Episode<'a> {
    pub sides: &'a Sides,
    pub seed: u64,
    pub chance: Chance,
    pub namespace: String,
    /// Indexes of the kinds it is about.
    pub kinds: Vec<usize>,
    pub pairs: Pairs,
    pub known: BTreeMap<(usize, String), Known>,
    /// The path of a list that has more, and the pair of its token.
    pub more: Option<(String, usize)>,
    pub count: usize,
    log: Vec<String>,
}

impl<'a> Episode<'a> {
    pub async fn new(sides: &'a Sides, seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let only = std::env::var("STREAM_KIND").ok();
        let kinds = (0..3).map(|_| match &only {
            Some(only) => KINDS.iter().position(|kind| kind.name == only).unwrap(),
            None => chance.below(KINDS.len()),
        });
        let mut kinds: Vec<usize> = kinds.collect();
        kinds.dedup();
        let namespace = format!("e{seed}");
        let (mut pairs, ask) = (Pairs::default(), |path: String| async move {
            let (real, ours) = sides.both("GET", &path, &Value::Null).await;
            (real.value(), ours.value())
        });
        sides.both("POST", "/api/v1/namespaces", &json!({"metadata": {"name": namespace}})).await;
        let owner = ask(format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{OWNER}")).await;
        pairs.uids.agree(
            owner.0["metadata"]["uid"].as_str().unwrap(),
            owner.1["metadata"]["uid"].as_str().unwrap(),
        );
        let start = ask(format!("/api/v1/namespaces/{namespace}/configmaps")).await;
        let mut episode = Self {
            sides,
            seed,
            chance,
            namespace,
            kinds,
            pairs,
            known: BTreeMap::new(),
            more: None,
            count: 0,
            log: Vec::new(),
        };
        episode.note_moment(&start.0, &start.1);
        episode
    }

    pub async fn run(mut self, tally: &mut Tally) {
        for _ in 0..LENGTH {
            self.count += 1;
            let request = self.next_request();
            let written = (request.method != "GET").then(|| self.settling(&request)).flatten();
            if !self.step(request, tally).await {
                return;
            }
            if let Some(read) = written {
                let about = read.about.clone();
                if !self.step(read, tally).await {
                    return;
                }
                self.settle_others(about).await;
            }
        }
        self.follow(tally).await;
    }

    /// What shows the end of the writes that the server does by itself after a request.
    fn settling(&self, request: &Request) -> Option<Request> {
        let (index, name) = request.about.clone()?;
        let whole = self.kind(index).settles() && !name.is_empty();
        whole.then(|| self.reading(index, name))
    }

    fn reading(&self, index: usize, name: String) -> Request {
        Request {
            method: "GET",
            path: format!("{}/{name}", self.collection(index, self.kind(index).versions[0])),
            headers: Vec::new(),
            body: Body::Text(String::new()),
            about: Some((index, name)),
        }
    }

    /// A definition that changed, or went, may leave names to another one that waits for them, and each server sees to that
    /// in its own time. This waits until they have, and tells nobody: the next request that is about the other one does.
    async fn settle_others(&self, about: Option<(usize, String)>) {
        let Some((index, name)) = about else { return };
        let others = self.known.keys().filter(|(of, other)| *of == index && *other != name);
        for (_, other) in others {
            let read = self.reading(index, other.clone());
            let (real, ours) = (self.asked(&read, Which::Real), self.asked(&read, Which::Ours));
            let _ = capt_e2e::until("both say the same", CAUGHT_UP, async || {
                let (real, ours) = self.sides.ask(&real, &ours).await;
                let settled = is_settled(&real.value()) && is_settled(&ours.value());
                let same = settled && compare::answers(&mut self.pairs.clone(), &real, &ours).is_ok();
                same.then_some(())
            })
            .await;
        }
    }

    /// Sends a request to both; whether they agree.
    async fn step(&mut self, request: Request, tally: &mut Tally) -> bool {
        let (real_asked, ours_asked) = (self.asked(&request, Which::Real), self.asked(&request, Which::Ours));
        let (mut real, mut ours) = self.sides.ask(&real_asked, &ours_asked).await;
        let settles = request.about.as_ref().is_some_and(|(index, _)| self.kind(*index).settles());
        let patience = match (request.method, settles) {
            ("GET", true) => SETTLED,
            ("GET", false) => CAUGHT_UP,
            _ => Duration::ZERO,
        };
        self.pass_over_silent(&request, &real, &ours);
        let unsettled = |answer: &Answer| patience == SETTLED && !is_settled(&answer.value());
        // What is on its way is not to be taken for the same.
        let judge = |pairs: &mut Pairs, real: &Answer, ours: &Answer| {
            if unsettled(real) || unsettled(ours) {
                return Err("it does not settle".to_owned());
            }
            compare::answers(pairs, real, ours)
        };
        let mut outcome = judge(&mut self.pairs, &real, &ours);
        if outcome.is_err() && patience > Duration::ZERO {
            let (sides, pairs) = (self.sides, &mut self.pairs);
            // What they say last is what differs.
            let _ = capt_e2e::until("both say the same", patience, async || {
                (real, ours) = sides.ask(&real_asked, &ours_asked).await;
                outcome = judge(pairs, &real, &ours);
                (outcome.is_ok() || panicked(&real_asked, &real, &ours)).then_some(())
            })
            .await;
        }
        tally.requests += 1;
        if real.code == 0 || ours.code == 0 {
            println!("no answer: {real_asked:?} real {} ours {}", real.code, ours.code);
        }
        *tally.codes.entry(real.code).or_default() += 1;
        self.log.push(format!("{} {} -> {}", request.method, real_asked.path, real.code));
        if panicked(&real_asked, &real, &ours) || fails_to_apply(&real) {
            // The real server panicked, or has a mistake that is known; what follows says nothing.
            return false;
        }
        match outcome {
            Ok(()) => {
                self.remember(&request, &real, &ours);
                true
            }
            Err(difference) => {
                let before = request.about.as_ref().and_then(|about| self.known.get(about));
                let before = before.map(|known| known.real.to_string()).unwrap_or_default();
                let log: Vec<&str> = self.log.iter().rev().take(4).map(String::as_str).collect();
                tally.differences.push(format!(
                    "seed {}: {difference}\n{}\n{:?}\nbody   {}\nbefore {before}\nreal   {} {}ours   {} {}",
                    self.seed,
                    log.join("\n"),
                    request.headers,
                    cut(&real_asked.body),
                    real.code,
                    cut(&real.text),
                    ours.code,
                    cut(&ours.text),
                ));
                false
            }
        }
    }

    /// A write after an apply with empty labels or annotations, which only upstream has stored, is one for upstream alone
    /// where it changes nothing else.
    fn pass_over_silent(&mut self, request: &Request, real: &Answer, ours: &Answer) {
        let Some(before) = request.about.as_ref().and_then(|about| self.known.get(about)) else { return };
        let revision = |object: &Value| object["metadata"]["resourceVersion"].as_str().map(str::to_owned);
        let written = (revision(&real.value()), revision(&ours.value()));
        let (Some(real_now), Some(ours_now)) = written else { return };
        let silent = request.method != "GET" && real.code == 200 && ours.code == 200;
        let unchanged = revision(&before.ours) == Some(ours_now.clone());
        if silent
            && unchanged
            && owns_nothing(&before.real)
            && revision(&before.real) != Some(real_now.clone())
        {
            self.pairs.revisions.rename(&real_now, &ours_now);
            self.pairs.silent.insert(real_now);
        }
    }

    fn asked(&self, request: &Request, which: Which) -> Asked {
        let body = match &request.body {
            Body::Text(text) => text.clone(),
            Body::Changed(edits) => {
                let known = request.about.as_ref().and_then(|about| self.known.get(about));
                let object = known.map(|known| if which == Which::Real { &known.real } else { &known.ours });
                let mut object = object.cloned().unwrap_or_else(|| json!({"metadata": {}}));
                edits.iter().for_each(|edit| change(&mut object, edit));
                object.to_string()
            }
        };
        Asked {
            method: request.method,
            path: self.pairs.fill(which, &request.path),
            headers: request.headers.clone(),
            body: self.pairs.fill(which, &body),
        }
    }

    fn remember(&mut self, request: &Request, real: &Answer, ours: &Answer) {
        let (real_value, ours_value) = (real.value(), ours.value());
        // Upstream loses its place in pages of all namespaces that a selector narrows to one.
        let narrowed = request.path.contains("metadata.namespace");
        if let (Some(_), "GET", false) =
            (real_value["metadata"]["continue"].as_str(), request.method, narrowed)
        {
            let path = request.path.split("&continue=").next().unwrap_or_default().to_owned();
            self.more = Some((path, self.pairs.tokens.all.len() - 1));
        }
        let is_list = real_value["items"].is_array() || real_value["rows"].is_array();
        // Other lists may come from a cache that is a moment behind.
        if is_list
            && request.method == "GET"
            && !request.path.contains("resourceVersion=")
            && !request.path.contains("continue=")
        {
            self.note_moment(&real_value, &ours_value);
        }
        let Some((kind, name)) = request.about.clone() else { return };
        let generated = real_value["metadata"]["name"].as_str().and_then(|real| {
            let found = self.pairs.names.all.iter().position(|pair| pair.0 == real)?;
            Some(format!("@name{found}@"))
        });
        let key = (kind, generated.unwrap_or(name));
        let gone = real.code == 404 || (request.method == "DELETE" && real_value["kind"] == "Status");
        if gone && real.code < 500 && !request.path.contains("dryRun=All") {
            self.known.remove(&key);
        }
        let whole = real_value["kind"] == KINDS[kind].name && real_value["metadata"]["name"].is_string();
        if real.code < 300 && whole && !request.path.contains("dryRun=All") {
            self.known.insert(key, Known { real: real_value, ours: ours_value });
        }
    }

    fn note_moment(&mut self, real: &Value, ours: &Value) {
        let revision =
            |list: &Value| list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        self.pairs.moments.add(&revision(real), &revision(ours));
    }

    pub fn kind(&self, index: usize) -> &'static Kind {
        &KINDS[index]
    }
}

/// Whether the real server ended the connection where it is known to panic: at what this one refuses, and at a JSON patch
/// that compares a list with a null in it.
fn panicked(asked: &Asked, real: &Answer, ours: &Answer) -> bool {
    real.code == 0 && (ours.code >= 400 || tests_null_items(&asked.body))
}

fn tests_null_items(patch: &str) -> bool {
    fn has_null_item(value: &Value) -> bool {
        match value {
            Value::Array(items) => items.iter().any(|item| item.is_null() || has_null_item(item)),
            Value::Object(members) => members.values().any(has_null_item),
            _ => false,
        }
    }
    let operations = serde_json::from_str::<Vec<Value>>(patch).unwrap_or_default();
    operations.iter().any(|operation| operation["op"] == "test" && has_null_item(&operation["value"]))
}

/// Upstream cannot apply to a scale where nobody manages the replicas yet.
fn fails_to_apply(real: &Answer) -> bool {
    real.code == 500 && real.text.contains("failed to create manager for existing fields")
}

/// Whether somebody manages labels or annotations of which there are none.
fn owns_nothing(object: &Value) -> bool {
    let mut entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    entries.any(|entry| {
        let metadata = &entry["fieldsV1"]["f:metadata"];
        ["f:labels", "f:annotations"].iter().any(|name| metadata[*name] == json!({}))
    })
}

/// Whether the server is done with a definition.
fn is_settled(object: &Value) -> bool {
    let condition = |of: &str, status: &str| {
        let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        conditions.into_iter().any(|condition| condition["type"] == of && condition["status"] == status)
    };
    if object["kind"] != "CustomResourceDefinition" {
        return true;
    }
    if object["metadata"]["deletionTimestamp"].is_string() {
        return !object["metadata"]["finalizers"].to_string().contains("customresourcecleanup");
    }
    let named = object["status"]["acceptedNames"] == object["spec"]["names"];
    (condition("Established", "True") && named) || condition("NamesAccepted", "False")
}

fn cut(text: &str) -> String {
    if text.len() > 6000 {
        format!("{}...\n", text.chars().take(6000).collect::<String>())
    } else {
        text.to_owned()
    }
}

fn change(object: &mut Value, edit: &Edit) {
    let parent = |object: &mut Value, path: &str| {
        let (parent, name) = path.rsplit_once('/').unwrap();
        (
            object.pointer_mut(parent).filter(|value| value.is_object()).map(Value::take),
            parent.to_owned(),
            name.to_owned(),
        )
    };
    let (path, value) = match edit {
        Edit::Set(path, value) | Edit::Merge(path, value) => (*path, Some(value)),
        Edit::Remove(path) => (*path, None),
    };
    let (Some(Value::Object(mut members)), parent, name) = parent(object, path) else { return };
    match (edit, value) {
        (Edit::Merge(..), Some(Value::Object(fresh))) if members.get(&name).is_some_and(Value::is_object) => {
            members[&name].as_object_mut().unwrap().extend(fresh.clone());
        }
        (_, Some(value)) => drop(members.insert(name, value.clone())),
        (_, None) => drop(members.shift_remove(&name)),
    }
    *object.pointer_mut(&parent).unwrap() = members.into();
}
