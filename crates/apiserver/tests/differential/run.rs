//! One run: random writes by several managers, and the comparison of every answer.

use std::fmt;

use capt_apiserver::managed_fields::{Conflicts, FieldsError, Timestamp};
use http::Method;
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::{Map, Value, json};

use crate::{
    generate::Generate,
    kinds::Subject,
    model::{Model, Refused},
    real::{Answer, Real, without_identity},
    step::{Body, Step},
};

/// Writes to one object before the next is begun.
const STEPS_OF_OBJECT: u64 = 25;

#[derive(Debug, Default)]
pub struct Report {
    pub agreed: u64,
    pub conflicts: u64,
    pub typed_errors: u64,
    pub patch_errors: u64,
    /// Refused for reasons that are not field management's.
    pub invalid: u64,
    pub differences: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { agreed, conflicts, typed_errors, patch_errors, invalid, differences } = self;
        write!(
            f,
            "{agreed} writes agreed ({conflicts} conflicts, {typed_errors} type errors, {patch_errors} patch \
             errors among them), {invalid} refused by validation, {} differences",
            differences.len()
        )
    }
}

pub async fn compare(real: &Real, subject: &Subject, steps: u64, seed: u64) -> Report {
    let mut report = Report::default();
    let mut object = 0;
    while report.agreed < steps && report.differences.len() < 5 {
        let mut run = Run {
            real,
            subject,
            name: format!("{}-{seed}-{object}", subject.plural),
            generate: Generate { random: StdRng::seed_from_u64(seed * 1_000_003 + object) },
            model: Model {
                kind: &subject.kind,
                api_versions: &subject.api_versions,
                preparation: &*subject.preparation,
                has_status: subject.has_status,
                status_resets: subject.status_resets,
                live: None,
            },
            latest: None,
        };
        for _ in 0..STEPS_OF_OBJECT {
            run.step(&mut report).await;
        }
        object += 1;
    }
    report
}

struct Run<'a> {
    real: &'a Real,
    subject: &'a Subject,
    name: String,
    generate: Generate,
    model: Model<'a>,
    /// The object as the real server has it.
    latest: Option<Value>,
}

impl Run<'_> {
    async fn step(&mut self, report: &mut Report) {
        let step = self.random_step();
        let (first, answer, last) = (second(), self.send(&step).await, second());
        let ours_before = self.model.live.clone();
        let mut ours = self.model.perform(&step, Timestamp::from_unix(last));
        let mut verdict = judge(&answer, &ours);
        // The server may have written in any second since it was asked.
        for earlier in (first..last).rev() {
            if !matches!(verdict, Verdict::Differs(_)) {
                break;
            }
            self.model.live.clone_from(&ours_before);
            ours = self.model.perform(&step, Timestamp::from_unix(earlier));
            verdict = judge(&answer, &ours);
        }
        match &verdict {
            Verdict::Agreed => report.agreed += 1,
            Verdict::Conflict => {
                report.agreed += 1;
                report.conflicts += 1;
            }
            Verdict::TypedError => {
                report.agreed += 1;
                report.typed_errors += 1;
            }
            Verdict::PatchError => {
                report.agreed += 1;
                report.patch_errors += 1;
            }
            Verdict::Invalid => report.invalid += 1,
            Verdict::Differs(what) => report.differences.push(format!(
                "{what}\nobject {}\nstep {step:#?}\nlive {}\nreal {} {}\nours {}",
                self.name,
                ours_before.clone().unwrap_or_default(),
                answer.code,
                without_identity(&answer.body),
                ours.as_ref().map_or_else(|refused| format!("{refused:?}"), ToString::to_string),
            )),
        }
        if answer.is_success() {
            self.latest = Some(answer.body.clone());
        }
        // After a difference, and where the server refused what is not modelled, go on from what it has.
        if !answer.is_success() {
            self.model.live = ours_before;
        }
        if let (Verdict::Differs(_), Some(latest)) = (&verdict, &self.latest) {
            self.model.live = Some(without_identity(latest));
        }
    }

    fn random_step(&mut self) -> Step {
        let manager = self.generate.pick(&["kubectl", "alpha", "beta", "gamma"]);
        let mut manager = (*manager).to_owned();
        if self.generate.chance(25) {
            manager = format!("m{}", self.generate.random.random_range(0..14));
        }
        let status = self.subject.has_status && self.latest.is_some() && self.generate.chance(25);
        let api_version = if self.generate.chance(50) {
            self.subject.api_versions[0].clone()
        } else {
            let versions = &self.subject.api_versions;
            versions[self.generate.random.random_range(0..versions.len())].clone()
        };
        let body = match (&self.latest, self.generate.random.random_range(0..100)) {
            (None, 0..50) => {
                let mut object = self.object(&api_version, false, 40);
                self.last_applied(&mut object);
                Body::Create(object)
            }
            (None, _) | (_, 0..55) => {
                let percent = *self.generate.pick(&[10, 20, 40]);
                let force = self.generate.chance(40);
                Body::Apply(self.object(&api_version, status, percent), force)
            }
            (Some(_), 55..70) => Body::Update(self.changed(&api_version, status)),
            (Some(_), 70..88) => Body::Merge(self.merge_patch(status)),
            (Some(latest), _) if !self.subject.strategic => {
                let latest = latest.clone();
                let root = if status { "status" } else { self.subject.root };
                Body::Json(self.generate.json_patch(&latest, root))
            }
            _ => Body::Strategic(self.strategic_patch(status)),
        };
        Step { api_version, manager, status, body }
    }

    fn object(&mut self, api_version: &str, status: bool, percent: u32) -> Value {
        let mut metadata = self.generate.metadata();
        metadata.insert("name".to_owned(), json!(self.name));
        if self.subject.namespaced {
            metadata.insert("namespace".to_owned(), json!("default"));
        }
        let mut out = Map::new();
        out.insert("apiVersion".to_owned(), json!(api_version));
        out.insert("kind".to_owned(), json!(self.subject.kind.name()));
        out.insert("metadata".to_owned(), Value::Object(metadata));
        out.extend((self.subject.content)(&mut self.generate, status, percent));
        Value::Object(out)
    }

    /// The object with other contents, as a client that reads, changes and writes.
    fn changed(&mut self, api_version: &str, status: bool) -> Value {
        let mut object = self.latest.clone().unwrap_or_default();
        object["apiVersion"] = json!(api_version);
        for (name, value) in (self.subject.content)(&mut self.generate, status, 15) {
            match (object.get_mut(&name).and_then(Value::as_object_mut), value) {
                (Some(members), Value::Object(value)) => members.extend(value),
                (_, value) => object[name] = value,
            }
        }
        let fresh = self.generate.metadata();
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.extend(fresh);
        match self.generate.random.random_range(0..30) {
            0 => drop(metadata.insert("managedFields".to_owned(), json!([]))),
            1 => drop(metadata.insert("managedFields".to_owned(), json!([{}]))),
            2..8 => drop(metadata.shift_remove("managedFields")),
            _ => {}
        }
        self.last_applied(&mut object);
        object
    }

    /// Sometimes notes in an object what it has, like client-side apply.
    fn last_applied(&mut self, object: &mut Value) {
        if self.generate.chance(20) {
            let mut noted = without_identity(object);
            noted["metadata"] = json!({"name": self.name});
            let noted = noted.to_string();
            if !object["metadata"]["annotations"].is_object() {
                object["metadata"]["annotations"] = json!({});
            }
            object["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] =
                json!(noted);
        }
    }

    fn merge_patch(&mut self, status: bool) -> Value {
        let mut patch = (self.subject.content)(&mut self.generate, status, 12);
        for (name, value) in &mut patch {
            let there = self.latest.as_ref().and_then(|latest| latest.get(name)).and_then(Value::as_object);
            let names: Vec<_> = there.into_iter().flatten().map(|(name, _)| name.clone()).collect();
            if let (Value::Object(members), true, true) = (value, !names.is_empty(), self.generate.chance(60))
            {
                members.insert(self.generate.pick(&names).clone(), Value::Null);
            }
        }
        let metadata = self.generate.metadata();
        if !metadata.is_empty() {
            patch.insert("metadata".to_owned(), Value::Object(metadata));
        }
        Value::Object(patch)
    }

    fn strategic_patch(&mut self, status: bool) -> Value {
        let mut patch = self.merge_patch(status);
        if self.generate.chance(30) {
            // Not together with the list: which comes first is random there.
            patch["metadata"] = json!({"$deleteFromPrimitiveList/finalizers": ["x.y/a", "x.y/b"]});
        }
        if self.generate.chance(20) {
            patch["metadata"]["ownerReferences"] = json!([{"$patch": "delete", "uid": "u1"}]);
        }
        if self.generate.chance(10) {
            patch["metadata"]["labels"] = json!({"$patch": "replace", "z": "z"});
        }
        if self.generate.chance(30) && patch["status"]["conditions"].is_array() {
            let directive = *self.generate.pick(&["delete", "replace"]);
            let special = json!({"$patch": directive, "type": "Other"});
            patch["status"]["conditions"].as_array_mut().unwrap().push(special);
        }
        if self.generate.chance(10) && matches!(self.subject.plural, "configmaps" | "secrets") {
            let key = if self.subject.plural == "configmaps" { "k-data" } else { "k" };
            patch[self.subject.root] = json!({"$retainKeys": [key], key: "YQ=="});
        }
        if self.generate.chance(10) {
            patch["metadata"]["$setElementOrder/finalizers"] = json!(["x.y/c", "x.y/b", "x.y/a"]);
        }
        patch
    }

    async fn send(&self, step: &Step) -> Answer {
        let collection = self.subject.collection(&step.api_version);
        let object = format!("{collection}/{}{}", self.name, if step.status { "/status" } else { "" });
        let manager = &step.manager;
        let by = |uri: String| format!("{uri}?fieldManager={manager}&fieldValidation=Ignore");
        let (method, uri, of, body) = match &step.body {
            Body::Create(body) => (Method::POST, by(collection), "json", body),
            Body::Update(body) => (Method::PUT, by(object), "json", body),
            Body::Merge(body) => (Method::PATCH, by(object), "merge-patch+json", body),
            Body::Json(body) => (Method::PATCH, by(object), "json-patch+json", body),
            Body::Strategic(body) => (Method::PATCH, by(object), "strategic-merge-patch+json", body),
            Body::Apply(body, force) => {
                (Method::PATCH, format!("{}&force={force}", by(object)), "apply-patch+yaml", body)
            }
        };
        self.real.call(method, &uri, &format!("application/{of}"), body).await
    }
}

/// Seconds since 1970.
fn second() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    now.as_secs().try_into().unwrap()
}

enum Verdict {
    Agreed,
    Conflict,
    TypedError,
    PatchError,
    Invalid,
    Differs(String),
}

fn judge(answer: &Answer, ours: &Result<Value, Refused>) -> Verdict {
    match ours {
        Ok(object) if answer.is_success() => {
            let real = without_identity(&answer.body);
            let ours = without_identity(object);
            match difference(&real, &ours, "") {
                None => Verdict::Agreed,
                Some(what) => Verdict::Differs(what),
            }
        }
        // Validation is not modelled.
        Ok(_) if is_invalid(answer) => Verdict::Invalid,
        Err(Refused::Fields(FieldsError::Conflicts(conflicts))) if answer.code == 409 => {
            judge_conflicts(answer, conflicts)
        }
        Err(Refused::Fields(error)) if answer.code >= 400 => {
            let message = answer.body["message"].as_str().unwrap_or_default();
            if same_errors(message, &error.to_string()) {
                Verdict::TypedError
            } else {
                Verdict::Differs("other words".to_owned())
            }
        }
        Err(Refused::Patch(error)) if answer.code >= 400 => {
            // Of a JSON patch that fails the server says only that.
            let failed = capt_apiserver::status::ApiError::PatchFailed.to_string();
            if [Some(error.as_str()), Some(&failed)].contains(&answer.body["message"].as_str()) {
                Verdict::PatchError
            } else {
                Verdict::Differs("other words of a patch".to_owned())
            }
        }
        _ => Verdict::Differs("one refused".to_owned()),
    }
}

fn is_invalid(answer: &Answer) -> bool {
    matches!(answer.code, 422) || (answer.code == 400 && answer.body["reason"] == "BadRequest")
}

/// Of several errors the real server gives any order, and stops at the first unknown field of a map.
fn same_errors(real: &str, ours: &str) -> bool {
    let lines = |text: &str| {
        let mut lines: Vec<_> = text.lines().map(str::trim).map(ToOwned::to_owned).collect();
        lines.sort();
        lines
    };
    lines(real) == lines(ours)
        || real.lines().all(|line| ours.contains(line.trim_start().rsplit("): ").next().unwrap_or(line)))
}

fn judge_conflicts(answer: &Answer, conflicts: &Conflicts) -> Verdict {
    let mut real: Vec<_> = answer.body["details"]["causes"].as_array().cloned().unwrap_or_default();
    let mut ours: Vec<_> = conflicts
        .causes()
        .map(|cause| json!({"reason": Conflicts::CAUSE, "message": cause.message, "field": cause.field}))
        .collect();
    real.sort_by_key(ToString::to_string);
    ours.sort_by_key(ToString::to_string);
    let causes = |all: &[Value]| -> Vec<Value> {
        all.iter().map(|c| json!([c["reason"], c["message"], c["field"]])).collect()
    };
    if causes(&real) != causes(&ours) {
        return Verdict::Differs(format!("other causes: {real:?} {ours:?}"));
    }
    if answer.body["message"].as_str() != Some(&conflicts.to_string()) {
        return Verdict::Differs("other words of a conflict".to_owned());
    }
    Verdict::Conflict
}

/// The first place where two values differ.
fn difference(real: &Value, ours: &Value, path: &str) -> Option<String> {
    match (real, ours) {
        (Value::Object(real), Value::Object(ours)) => {
            for (name, real) in real {
                let path = format!("{path}/{name}");
                match ours.get(name) {
                    Some(ours) => {
                        if let Some(found) = difference(real, ours, &path) {
                            return Some(found);
                        }
                    }
                    None => return Some(format!("{path}: only real has it: {real}")),
                }
            }
            let extra = ours.iter().find(|(name, _)| !real.contains_key(*name));
            extra.map(|(name, value)| format!("{path}/{name}: only ours has it: {value}"))
        }
        (Value::Array(real), Value::Array(ours)) if real.len() == ours.len() => real
            .iter()
            .zip(ours)
            .enumerate()
            .find_map(|(index, (real, ours))| difference(real, ours, &format!("{path}/{index}"))),
        (Value::Number(real), Value::Number(ours)) if real.as_f64() == ours.as_f64() => None,
        _ if real == ours => None,
        _ => Some(format!("{path}: real {real}, ours {ours}")),
    }
}
