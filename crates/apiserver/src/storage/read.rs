//! Reads: one object, a collection, a collection as it changes.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Storage, Target, encode};
use crate::request::cursor::{self, Cursor};
use crate::request::query::{ListFrom, ListOptions};
use crate::request::selector::LabelSelector;
use crate::status::ApiError;
use crate::store::{At, Continue, Filter, Key, ListQuery, Object, Page, ReadError, Revision, Watcher};

/// The time that a read waits for a future revision; as long as in Kubernetes.
const PATIENCE: Duration = Duration::from_secs(3);

/// A collection, or a page of it.
#[derive(Debug)]
pub struct Listed {
    /// The objects, shared with the store: nothing is copied before it is read.
    pub items: Vec<Arc<Object>>,
    /// The revision of the whole list.
    pub revision: Revision,
    /// The continue token of the next page.
    pub next: Option<String>,
    /// The number of objects that follow, where that is known.
    pub remaining: Option<usize>,
}

impl Listed {
    /// Name of the objects in the store.
    pub fn keys(&self) -> Vec<Key> {
        self.items.iter().map(|object| object.key().clone()).collect()
    }
}

impl Storage {
    /// One object.
    pub fn get(&self, target: &Target, name: &str) -> Result<Bytes, ApiError> {
        Ok(encode::to_bytes(target, &*self.find(target, name)?))
    }

    /// One object as JSON.
    pub fn get_value(&self, target: &Target, name: &str) -> Result<Value, ApiError> {
        Ok(encode::to_value(target, &*self.find(target, name)?))
    }

    /// Waits a moment for a revision that is not there yet, for a read that is to be no older.
    pub async fn reach(&self, target: &Target, wanted: u64) -> Result<(), ApiError> {
        let wanted = Revision::new(wanted);
        let reached = async {
            let Ok(mut changes) = self.store.watch(Filter::default(), self.store.revision()) else { return };
            while self.store.revision() < wanted && changes.next().await.is_ok() {}
        };
        if wanted > self.store.revision() && is_cached(target) {
            // Whether it was reached is asked below.
            let _ = tokio::time::timeout(PATIENCE, reached).await;
        }
        let current = self.store.revision();
        if wanted <= current {
            return Ok(());
        }
        Err(ApiError::too_large_revision(wanted.get(), current.get(), is_cached(target)))
    }

    /// Waits a moment for the revision of a list, where upstream would list from its cache.
    pub async fn reach_list(&self, target: &Target, options: &ListOptions) -> Result<(), ApiError> {
        match options.list_from()? {
            ListFrom::NotOlderThan(wanted) => self.reach(target, wanted).await,
            ListFrom::Exact(wanted) if !is_one(target, options) => self.reach(target, wanted).await,
            _ => Ok(()),
        }
    }

    /// A collection.
    pub fn list(&self, target: &Target, options: &ListOptions) -> Result<Listed, ApiError> {
        let (at, from) = self.list_start(target, options)?;
        let mut limit = usize::try_from(options.limit.unwrap_or(0)).unwrap_or(usize::MAX);
        // Upstream answers from a cache, which knows no pages, and looks a name up instead of going through all.
        if is_one(target, options) || (is_cached(target) && matches!(options.list_from()?, ListFrom::Any)) {
            limit = 0;
        }
        // A page of a filtered list goes on until it is full. It is looked for in one go: what is behind it is counted, and
        // what changed since its revision is undone, once.
        let page = self.page(target, options, limit, at, from.as_ref())?;
        let next = page.next.as_ref().map(|next| cursor::encode(&cursor_of(next)));
        let remaining = (next.is_some() && !is_filtered(options)).then_some(page.remaining);
        Ok(Listed { items: page.objects, revision: page.revision, next, remaining })
    }

    /// Every selected object of a collection at one revision, for a watch to begin with.
    pub fn snapshot(
        &self,
        target: &Target,
        options: &ListOptions,
    ) -> Result<(Vec<Arc<Object>>, Revision), ApiError> {
        let page = self.page(target, options, 0, At::Latest, None)?;
        Ok((page.objects, page.revision))
    }

    fn list_start(&self, target: &Target, options: &ListOptions) -> Result<(At, Option<Continue>), ApiError> {
        Ok(match options.list_from()? {
            // A limit makes a revision exact, but not where a name is looked up.
            ListFrom::Exact(revision) if is_one(target, options) && options.version_match.is_none() => {
                (At::NotOlderThan(Revision::new(revision)), None)
            }
            ListFrom::Latest | ListFrom::Any => (At::Latest, None),
            ListFrom::NotOlderThan(revision) => (At::NotOlderThan(Revision::new(revision)), None),
            ListFrom::Exact(revision) => (At::Exactly(Revision::new(revision)), None),
            ListFrom::Continue(cursor) => {
                let revision = cursor.revision.map_or_else(|| self.store.revision(), Revision::new);
                let (namespace, name) = cursor.start.split_once('/').unwrap_or(("", &cursor.start));
                (At::Latest, Some(Continue { revision, namespace: namespace.into(), name: name.into() }))
            }
        })
    }

    /// The selected objects of a page; the limit counts these.
    fn page(
        &self,
        target: &Target,
        options: &ListOptions,
        limit: usize,
        at: At,
        from: Option<&Continue>,
    ) -> Result<Page, ApiError> {
        // A selector of one namespace is as good as a path.
        let chosen = options.fields.exact("metadata.namespace").filter(|_| target.served.resource.namespaced);
        let query = ListQuery {
            resource: &target.served.store_name,
            namespace: target.namespace.as_deref().or(chosen),
            limit,
            at,
            from,
        };
        let filtered = is_filtered(options);
        let matches = |object: &Object| !filtered || selected(target, object, options);
        self.store.snapshot().list_matching(&query, matches).map_err(|error| match error {
            ReadError::Gone { .. } if from.is_some() => ApiError::continue_expired(None),
            ReadError::Gone { .. } => ApiError::too_old_list(),
            ReadError::Future { asked, current } => {
                ApiError::too_large_revision(asked.get(), current.get(), false)
            }
        })
    }

    /// A collection as it changes, after a revision.
    pub fn watch(&self, target: &Target, from: Revision) -> Result<Watcher, ApiError> {
        let filter = Filter {
            resource: Some(Arc::clone(&target.served.store_name)),
            namespace: target.namespace.as_deref().map(Into::into),
        };
        self.store.watch(filter, from).map_err(|error| match error {
            crate::store::WatchError::Start(ReadError::Gone { asked, compacted }) => {
                ApiError::too_old_watch(asked.get(), compacted.get())
            }
            other => ApiError::Internal(other.to_string()),
        })
    }
}

fn is_filtered(options: &ListOptions) -> bool {
    !options.labels.is_empty() || !options.fields.is_empty()
}

/// Returns whether a list is of one object at most, by its name.
fn is_one(target: &Target, options: &ListOptions) -> bool {
    let placed = target.namespace.is_some()
        || !target.served.resource.namespaced
        || options.fields.exact("metadata.namespace").is_some();
    placed && options.fields.exact("metadata.name").is_some()
}

/// Returns whether upstream answers from a cache, which shows in what it does not do then.
fn is_cached(target: &Target) -> bool {
    &*target.served.store_name != "/events"
}

/// Returns true if the selectors of a request select an object. Only a field selector beyond name and namespace needs all of it.
pub fn selected(target: &Target, object: &Object, options: &ListOptions) -> bool {
    let key = object.key();
    let in_key = |field: &str| match field {
        "metadata.name" => Some(&*key.name),
        "metadata.namespace" => Some(&*key.namespace),
        _ => None,
    };
    if options.fields.requirements().iter().all(|requirement| in_key(&requirement.field).is_some()) {
        let named = options.fields.matches(|field| in_key(field).unwrap_or_default().into());
        return named && (options.labels.is_empty() || labelled(target, object, &options.labels));
    }
    let value = encode::to_value(target, object);
    options.labels.matches_object(&value) && options.fields.matches_object(&target.served.resource, &value)
}

/// Returns true if a label selector selects an object, of which the labels alone are parsed.
fn labelled(target: &Target, object: &Object, selector: &LabelSelector) -> bool {
    let labels = object.part(find_labels).unwrap_or(b"{}");
    match serde_json::from_slice(labels) {
        Ok(Labels(labels)) => {
            // Of a label that is there twice, the last one counts.
            let last = |key: &str| labels.partition_point(|(label, _)| *label <= key).checked_sub(1);
            let value = |key: &str| last(key).map(|at| labels[at]).filter(|(label, _)| *label == key);
            selector.matches(|key| value(key).map(|(_, value)| value))
        }
        // Texts with escapes are not borrowed; labels have none.
        Err(_) => selector.matches_object(&encode::to_value(target, object)),
    }
}

/// Finds the JSON of the labels in an object; nothing where there is none.
fn find_labels(object: &[u8]) -> Option<Range<usize>> {
    #[derive(Deserialize)]
    struct Labelled<'a> {
        #[serde(borrow, default)]
        metadata: Metadata<'a>,
    }
    #[derive(Default, Deserialize)]
    struct Metadata<'a> {
        #[serde(borrow, default)]
        labels: Option<&'a RawValue>,
    }
    let Labelled { metadata } = serde_json::from_slice(object).ok()?;
    let labels = metadata.labels?.get();
    let start = labels.as_ptr().addr() - object.as_ptr().addr();
    Some(start..start + labels.len())
}

/// Labels in the order of their keys.
struct Labels<'a>(Vec<(&'a str, &'a str)>);

impl<'de> Deserialize<'de> for Labels<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Labels<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("labels")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                pairs.sort_by_key(|(label, _)| *label);
                Ok(Labels(pairs))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

fn cursor_of(next: &Continue) -> Cursor {
    Cursor { revision: Some(next.revision.get()), start: format!("{}/{}", next.namespace, next.name) }
}

#[cfg(test)]
mod tests;
