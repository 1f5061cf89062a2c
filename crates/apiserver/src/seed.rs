//! What a new store begins with: the objects of a server that was made ready once, written down as text.
//!
//! To define a dozen kinds takes a server longer than all else it does at its first start: each is checked, written,
//! judged and written again. A [seed](write()) is all of that done before, and put into a new store as one write. Objects
//! get uids and times of their own.
//!
//! One object a line: `RESOURCE NAMESPACE|- NAME JSON`.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::Value;

use crate::control;
use crate::registry::Catalogue;
use crate::request::write::WriteOptions;
use crate::server::{self, StartError};
use crate::storage::{Change, PatchBody, Source, Storage, Target};
use crate::store::{self, Key, Op, Options, Store};

/// What stands for a uid, and for a time.
const UID: &str = "\"00000000-0000-0000-0000-000000000000\"";
const TIME: &str = "\"1970-01-01T00:00:00Z\"";
/// Where the store puts the revision.
const REVISION: &str = "\"resourceVersion\":\"";

/// The seed of a server with these definitions, each applied by the manager that is named with it.
pub async fn write(definitions: impl IntoIterator<Item = (&str, Value)>) -> Result<String, StartError> {
    let storage = Storage::new(Store::in_memory(&Options::default())?, Arc::new(Blank));
    storage.registry.replace(Catalogue::built_in()?);
    server::ensure(&storage).await?;
    let definition = |served| Target { served, namespace: None, status: false };
    let catalogue = storage.registry.current();
    let target = catalogue.find("apiextensions.k8s.io", "v1", "customresourcedefinitions").cloned();
    if let Some(target) = target.map(definition) {
        for (manager, crd) in definitions {
            let name = crd["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let change = Change::Patch(PatchBody::Apply(crd));
            let applied = storage.change(&target, &name, &change, &WriteOptions::default(), manager).await;
            applied.map_err(StartError::Definitions)?;
        }
    }
    control::refresh(&storage).await;
    let mut text = String::new();
    for object in storage.store.snapshot().objects() {
        let Key { resource, namespace, name } = object.key();
        let namespace = if namespace.is_empty() { "-" } else { namespace };
        let json = String::from_utf8_lossy(object.bytes());
        let json = json.replacen(&format!("{REVISION}{}", object.revision()), REVISION, 1);
        writeln!(text, "{resource} {namespace} {name} {json}").expect("text takes text");
    }
    Ok(text)
}

/// Puts a seed into a store that has nothing.
pub(crate) async fn sow(store: &Store, seed: &str, source: &dyn Source) -> Result<(), StartError> {
    let time = format!("\"{}\"", source.now());
    let ops = seed.lines().map(|line| {
        let mut words = line.splitn(4, ' ');
        let (resource, namespace, name) = (words.next()?, words.next()?, words.next()?);
        let json = words.next()?.replace(TIME, &time).replacen(UID, &format!("\"{}\"", source.uid()), 1);
        let mut before = bytes::Bytes::from(json);
        let gap = before.windows(REVISION.len()).position(|window| window == REVISION.as_bytes())?;
        let after = before.split_off(gap + REVISION.len());
        let key = Key::new(resource, if namespace == "-" { "" } else { namespace }, name);
        Some(Op::Create { key, value: store::Value::with_gap(before, after) })
    });
    let ops: Option<Vec<Op>> = ops.collect();
    let ops = ops.filter(|ops| !ops.is_empty()).ok_or(StartError::NoSeed)?;
    store.write(ops).await.map(drop).map_err(StartError::Seed)
}

/// Neither time nor chance.
struct Blank;

impl Source for Blank {
    fn now(&self) -> String {
        TIME.trim_matches('"').to_owned()
    }

    fn uid(&self) -> String {
        UID.trim_matches('"').to_owned()
    }

    fn draw(&self, _: usize) -> usize {
        0
    }
}

#[cfg(test)]
mod tests;
