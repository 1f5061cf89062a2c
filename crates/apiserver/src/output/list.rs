//! Lists, put together from objects that are already serialized.
//!
//! ```text
//! {"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[ bytes , bytes ]}
//! ```

use serde_json::{Map, Value};

use crate::resource::{Resource, api_version};

/// The metadata of a list, also that of a `Table` and a `PartialObjectMetadataList`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ListMeta {
    /// The revision the list is of.
    pub resource_version: String,
    /// The continue token; empty on the last page.
    pub continue_token: String,
    /// The number of remaining items, where that is known.
    pub remaining: Option<u64>,
}

impl ListMeta {
    /// As JSON.
    pub fn to_json(&self) -> Value {
        let Self { resource_version, continue_token, remaining } = self;
        let mut meta = Map::new();
        if !resource_version.is_empty() {
            meta.insert("resourceVersion".to_owned(), resource_version.as_str().into());
        }
        if !continue_token.is_empty() {
            meta.insert("continue".to_owned(), continue_token.as_str().into());
        }
        if let Some(remaining) = remaining {
            meta.insert("remainingItemCount".to_owned(), (*remaining).into());
        }
        meta.into()
    }
}

/// Ends a list whose items were put together from nothing; Go shows such a list without items as null.
pub(super) fn close(mut out: Vec<u8>) -> Vec<u8> {
    if out.last() == Some(&b'[') {
        out.pop();
        out.extend_from_slice(b"null}\n");
    } else {
        out.extend_from_slice(b"]}\n");
    }
    out
}

/// Writes a list of objects of a resource.
///
/// Custom objects keep `kind` and `apiVersion` in a list and the list always says `continue`; built-in ones lose
/// both, which costs a comparison of their first bytes.
pub struct ListWriter {
    out: Vec<u8>,
    /// The beginnings of an item whose type is left out: with the kind first, or with the version first.
    prefixes: Option<[Vec<u8>; 2]>,
    empty: bool,
}

impl ListWriter {
    /// Begins a list; `capacity` is about how many bytes the items have.
    pub fn new(resource: &Resource, version: &str, meta: &ListMeta, capacity: usize) -> Self {
        let api_version = api_version(&resource.group, version);
        let mut meta = meta.to_json();
        if resource.custom && meta.get("continue").is_none() {
            meta["continue"] = "".into();
        }
        let prefixes = (!resource.custom).then(|| {
            let kind = format!("\"kind\":{}", Value::from(resource.kind.as_str()));
            let version = format!("\"apiVersion\":{}", Value::from(api_version.as_str()));
            [format!("{{{kind},{version},").into_bytes(), format!("{{{version},{kind},").into_bytes()]
        });
        Self { out: begin(&resource.list_kind, &api_version, &meta, capacity), prefixes, empty: true }
    }

    /// Adds an object, serialized without space between its members.
    pub fn push(&mut self, object: &[u8]) {
        if !self.empty {
            self.out.push(b',');
        }
        self.empty = false;
        if self.unshown(object) > 0 {
            self.out.push(b'{');
        }
        self.out.extend_from_slice(&object[self.unshown(object)..]);
    }

    /// The number of bytes at the beginning of an object to replace by a brace: items of built-in kinds have no kind.
    pub fn unshown(&self, object: &[u8]) -> usize {
        let found = self.prefixes.iter().flatten().find(|prefix| object.starts_with(prefix));
        found.map_or(0, Vec::len)
    }

    /// The beginning of the list, up to its items, for callers that send these one by one.
    pub fn head(&self) -> Vec<u8> {
        self.out.clone()
    }

    /// The list, with the newline that upstream ends documents with.
    pub fn finish(mut self) -> Vec<u8> {
        self.out.extend_from_slice(b"]}\n");
        self.out
    }
}

/// The beginning of a list, up to its items.
pub(super) fn begin(kind: &str, api_version: &str, meta: &Value, capacity: usize) -> Vec<u8> {
    let (kind, api_version) = (Value::from(kind), Value::from(api_version));
    let head = format!("{{\"kind\":{kind},\"apiVersion\":{api_version},\"metadata\":{meta},\"items\":[");
    // A comma for each item fits into what is left of a few hundred bytes or of a page.
    let mut out = Vec::with_capacity(head.len() + capacity + capacity / 64 + 16);
    out.extend_from_slice(head.as_bytes());
    out
}
