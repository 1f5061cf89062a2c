//! What the server does around field management, as far as it is needed to compare.

use capt_apiserver::{
    managed_fields::{FieldSet, FieldsError, Kind, ResetFields, Timestamp, Write, apply, keep_times, update},
    patch::{json_patch, merge_patch},
};
use serde_json::{Value, json};

use crate::step::{Body, Step};

/// How objects of a kind are prepared.
pub trait Preparation {
    /// Fills in defaults.
    fn default(&self, object: &mut Value);
    /// Brings the object into the form in which it is decoded.
    fn normalise(&self, object: &mut Value);
    /// What admission adds to a new object, after its fields are managed.
    fn admit(&self, _object: &mut Value) {}
}

pub struct Model<'a> {
    pub kind: &'a Kind,
    pub api_versions: &'a [String],
    pub preparation: &'a dyn Preparation,
    /// Whether status is a subresource.
    pub has_status: bool,
    /// What a write of the status does not reach.
    pub status_resets: &'a [&'a str],
    pub live: Option<Value>,
}

#[derive(Debug)]
pub enum Refused {
    Fields(FieldsError),
    Patch(String),
}

impl Model<'_> {
    /// Performs the step. The live object changes only if it succeeds.
    pub fn perform(&mut self, step: &Step, now: Timestamp) -> Result<Value, Refused> {
        let none = ResetFields::NONE;
        let main = ResetFields::of_main(&step.api_version);
        // Like the server, which knows what a status write does not reach in all versions, but what a write of the
        // object does not reach only in its own.
        let of_status = |reset: ResetFields, version: &String| {
            let fields: Vec<_> = self.status_resets.iter().map(std::slice::from_ref).collect();
            reset.and(version, FieldSet::of_fields(&fields))
        };
        let status = self.api_versions.iter().fold(ResetFields::NONE, of_status);
        let write = Write {
            kind: self.kind,
            api_version: &step.api_version,
            subresource: if step.status { "status" } else { "" },
            reset: match (self.has_status, step.status) {
                (false, _) => &none,
                (true, false) => &main,
                (true, true) => &status,
            },
            manager: &step.manager,
            now,
        };
        let live = self.live.as_ref().map(|live| {
            let mut live = live.clone();
            live["apiVersion"] = json!(step.api_version);
            live
        });
        let mut new = match &step.body {
            Body::Create(object) | Body::Update(object) => self.decoded(object.clone()),
            Body::Merge(patch) => {
                let mut new = live.clone().unwrap_or_default();
                merge_patch(&mut new, patch.clone()).map_err(|error| Refused::Patch(error.to_string()))?;
                self.decoded(new)
            }
            Body::Json(patch) => {
                let mut new = live.clone().unwrap_or_default();
                json_patch(&mut new, patch.clone()).map_err(|error| Refused::Patch(error.to_string()))?;
                self.decoded(new)
            }
            Body::Strategic(patch) => {
                let mut new = live.clone().unwrap_or_default();
                let types = self.kind.types(&step.api_version).unwrap();
                capt_apiserver::patch::strategic_merge_patch(&mut new, &mut patch.clone(), types)
                    .map_err(|error| Refused::Patch(error.to_string()))?;
                self.decoded(new)
            }
            Body::Apply(object, force) => {
                let mut new = apply(&write, live.as_ref(), object, *force).map_err(Refused::Fields)?;
                self.preparation.default(&mut new);
                new
            }
        };
        if !matches!(step.body, Body::Apply(..)) {
            let live = if matches!(step.body, Body::Create(_)) { None } else { live.as_ref() };
            // An error is not one of the write.
            let _ = update(&write, live, &mut new);
        }
        let mut new = self.put_back(step, live.as_ref(), new);
        self.preparation.normalise(&mut new);
        if live.is_none() {
            self.preparation.admit(&mut new);
        }
        if let Some(live) = &live {
            keep_times(live, &mut new);
        }
        self.live = Some(new.clone());
        Ok(new)
    }

    fn decoded(&self, mut object: Value) -> Value {
        self.preparation.default(&mut object);
        self.preparation.normalise(&mut object);
        object
    }

    /// What the write may not change is as it was.
    fn put_back(&self, step: &Step, live: Option<&Value>, mut new: Value) -> Value {
        if !self.has_status {
            return new;
        }
        let old_status = live.and_then(|live| live.get("status")).cloned();
        if step.status && !self.status_resets.contains(&"metadata") {
            set(&mut new, "spec", live.and_then(|live| live.get("spec")).cloned());
            return new;
        }
        if step.status {
            let mut out = live.cloned().unwrap_or_default();
            let managed = new["metadata"].get("managedFields").cloned();
            set(&mut out["metadata"], "managedFields", managed);
            set(&mut out, "status", new.get("status").cloned());
            return out;
        }
        set(&mut new, "status", old_status);
        new
    }
}

fn set(object: &mut Value, name: &str, value: Option<Value>) {
    let members = object.as_object_mut().unwrap();
    match value {
        Some(value) => {
            members.insert(name.to_owned(), value);
        }
        None => {
            members.shift_remove(name);
        }
    }
}
