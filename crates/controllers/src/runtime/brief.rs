//! Metadata that is read of an answer to a write: who wrote an object knows the rest, and reading it would cost as much as the look
//! that led to the write.

use std::borrow::Cow;
use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Deserializer};

/// An object of kind `K`, of which only its version is known.
#[derive(Clone, Debug)]
pub struct Brief<K> {
    /// Version and generation; no more.
    pub metadata: ObjectMeta,
    kind: PhantomData<fn() -> K>,
}

impl<'de, K> Deserialize<'de> for Brief<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Object {
            metadata: Metadata,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata {
            resource_version: Option<String>,
            generation: Option<i64>,
        }
        let Metadata { resource_version, generation } = Object::deserialize(deserializer)?.metadata;
        Ok(Self {
            metadata: ObjectMeta { resource_version, generation, ..ObjectMeta::default() },
            kind: PhantomData,
        })
    }
}

impl<K: Resource> Resource for Brief<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(dt)
    }

    fn group(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::group(dt)
    }

    fn version(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::version(dt)
    }

    fn plural(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(dt)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use capt_api::machine::CaptMachine;
    use serde_json::json;

    use super::*;

    #[test]
    fn it_is_asked_for_where_the_kind_is_and_knows_its_version() {
        assert_eq!(Brief::<CaptMachine>::url_path(&(), Some("n")), CaptMachine::url_path(&(), Some("n")));
        let answer = json!({"kind": "CaptMachine", "metadata": {"resourceVersion": "7", "generation": 2, "name": "m"}});
        let brief: Brief<CaptMachine> = serde_json::from_value(answer).unwrap();
        assert_eq!((brief.meta().resource_version.as_deref(), brief.meta().generation), (Some("7"), Some(2)));
        assert!(serde_json::from_value::<Brief<CaptMachine>>(json!({"kind": "Status"})).is_err());
    }
}
