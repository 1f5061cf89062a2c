//! The scale subresource: replicas and selector of an object, in one shape for all kinds.

use serde_json::{Value, json};

use super::{Change, PatchBody, Storage, Target};
use crate::object::Meta;
use crate::request::write::WriteOptions;
use crate::resource::Scale;
use crate::status::ApiError;

impl Storage {
    /// The scale of an object.
    pub fn scale(&self, target: &Target, name: &str) -> Result<Value, ApiError> {
        let scale = target.served.version.scale.as_ref().ok_or(ApiError::UnknownResource)?;
        Ok(scale_of(scale, &self.get_value(target, name)?))
    }

    /// Changes the replicas of an object, through a change of its scale.
    pub async fn change_scale(
        &self,
        target: &Target,
        name: &str,
        change: &Change,
        options: &WriteOptions,
        manager: &str,
    ) -> Result<Value, ApiError> {
        let scale = target.served.version.scale.as_ref().ok_or(ApiError::UnknownResource)?;
        let options = WriteOptions { through_scale: true, ..options.clone() };
        let mut wanted = self.scale(target, name)?;
        match change {
            Change::Replace(object) => wanted = object.clone(),
            Change::Patch(PatchBody::Json(patch)) => {
                crate::patch::json_patch(&mut wanted, patch.clone())
                    .map_err(|error| ApiError::BadRequest(error.to_string()))?;
            }
            Change::Patch(PatchBody::Merge(patch) | PatchBody::Strategic(patch)) => {
                crate::patch::merge_patch(&mut wanted, patch.clone())
                    .map_err(|error| ApiError::BadRequest(error.to_string()))?;
            }
            Change::Patch(PatchBody::Apply(applied)) => {
                return self.apply_scale(target, name, scale, applied, &options, manager).await;
            }
        }
        let replicas = wanted["spec"].get("replicas").map_or(Some(0), Value::as_i64);
        let replicas =
            replicas.ok_or_else(|| ApiError::BadRequest("spec.replicas of a scale is a number".into()))?;
        let mut patch = at_path(&scale.spec_replicas, replicas.into());
        if let Some(version) =
            Meta::of(&wanted).resource_version().filter(|_| matches!(change, Change::Replace(_)))
        {
            patch["metadata"] = json!({"resourceVersion": version});
        }
        let change = Change::Patch(PatchBody::Merge(patch));
        let written = self.change(target, name, &change, &options, manager).await?;
        let object = serde_json::from_slice(&written.object).expect("what was written is JSON");
        Ok(scale_of(scale, &object))
    }

    /// Applies a scale to the field of the object that it stands for.
    async fn apply_scale(
        &self,
        target: &Target,
        name: &str,
        scale: &Scale,
        applied: &Value,
        options: &WriteOptions,
        manager: &str,
    ) -> Result<Value, ApiError> {
        let replicas = applied["spec"].get("replicas").cloned().unwrap_or_default();
        let mut object = at_path(&scale.spec_replicas, replicas);
        object["apiVersion"] = target.served.api_version.as_str().into();
        object["kind"] = target.served.resource.kind.as_str().into();
        object["metadata"] = applied["metadata"].clone();
        let change = Change::Patch(PatchBody::Apply(object));
        let written = self.change(target, name, &change, options, manager).await?;
        let object = serde_json::from_slice(&written.object).expect("what was written is JSON");
        Ok(scale_of(scale, &object))
    }
}

fn scale_of(scale: &Scale, object: &Value) -> Value {
    let meta = &object["metadata"];
    let find = |path: &str| path.split('.').skip(1).try_fold(object, |value, member| value.get(member));
    let number = |path: &str| find(path).and_then(Value::as_i64).unwrap_or(0);
    let mut answer = json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"],
            "resourceVersion": meta["resourceVersion"], "creationTimestamp": meta["creationTimestamp"]},
        "spec": {},
        "status": {"replicas": number(&scale.status_replicas)},
    });
    // Go leaves out a wanted 0, and shows an observed one.
    if number(&scale.spec_replicas) != 0 {
        answer["spec"]["replicas"] = number(&scale.spec_replicas).into();
    }
    if let Some(selector) = scale.label_selector.as_deref().and_then(find).and_then(Value::as_str) {
        answer["status"]["selector"] = selector.into();
    }
    answer
}

/// An object that has only this value.
fn at_path(path: &str, value: Value) -> Value {
    path.split('.')
        .skip(1)
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .fold(value, |value, member| json!({member: value}))
}
