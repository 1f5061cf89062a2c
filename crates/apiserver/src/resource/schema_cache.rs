//! Cache of compiled schemas: those that were validated, until they are served, and those that are served. A CRD is first
//! validated and then served, often in several versions with one schema, and validated again at each write; compiling is most
//! of the work.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use capt_schema::{FieldError, Schema};
use serde_json::Value;

/// The number of validated schemas that wait to be served; older ones are dropped.
const WAITING: usize = 16;
/// Bytes of all that wait; compiled they take some thirty times as much. What is only tried (a dry run) waits as well.
const WAITING_BYTES: usize = 1 << 20;
/// The number of served schemas that are remembered: a CRD that is validated again is mostly unchanged.
const SERVED: usize = 1024;

/// The number of weights that are remembered; a weight is asked for soon after the validation.
const WEIGHED: usize = 256;

/// Two hashes of its text: schemas are too long to be kept only to be compared.
type Key = [u64; 2];

static HASHERS: LazyLock<[RandomState; 2]> = LazyLock::new(|| [RandomState::new(), RandomState::new()]);
static SCHEMAS: Mutex<Schemas> =
    Mutex::new(Schemas { waiting: VecDeque::new(), served: VecDeque::new(), weights: VecDeque::new() });

/// The newest first.
struct Schemas {
    /// With the length of their texts.
    waiting: VecDeque<(Key, Arc<Schema>, usize)>,
    served: VecDeque<(Key, Weak<Schema>)>,
    weights: VecDeque<(Key, usize)>,
}

impl Schemas {
    fn served(&self, key: Key) -> Option<Arc<Schema>> {
        self.served.iter().find(|(other, _)| *other == key).and_then(|(_, schema)| schema.upgrade())
    }

    fn wait(&mut self, key: Key, schema: Arc<Schema>, length: usize) {
        self.weights.retain(|(other, _)| *other != key);
        self.weights.truncate(WEIGHED - 1);
        self.weights.push_front((key, schema.weight()));
        self.waiting.retain(|(other, ..)| *other != key);
        self.waiting.push_front((key, schema, length));
        self.waiting.truncate(WAITING);
        while self.waiting_bytes() > WAITING_BYTES {
            self.waiting.pop_back();
        }
    }

    fn waiting_bytes(&self) -> usize {
        self.waiting.iter().map(|(_, _, length)| length).sum()
    }

    fn take(&mut self, key: Key) -> Option<Arc<Schema>> {
        let at = self.waiting.iter().position(|(other, ..)| *other == key)?;
        self.waiting.remove(at).map(|(_, schema, _)| schema)
    }

    fn serve(&mut self, key: Key, schema: &Arc<Schema>) {
        self.served.retain(|(other, schema)| *other != key && schema.strong_count() > 0);
        self.served.truncate(SERVED - 1);
        self.served.push_front((key, Arc::downgrade(schema)));
    }
}

fn schemas() -> MutexGuard<'static, Schemas> {
    SCHEMAS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The key of a schema, and the length of its text.
fn key(schema: &Value) -> (Key, usize) {
    let text = schema.to_string();
    (HASHERS.each_ref().map(|hasher| hasher.hash_one(&text)), text.len())
}

/// Validates a schema, and keeps it compiled for a while.
pub fn validate(schema: &Value) -> Result<(), Vec<FieldError>> {
    let (key, length) = key(schema);
    if schemas().served(key).is_none() {
        let compiled = Arc::new(Schema::compile(schema)?);
        schemas().wait(key, compiled, length);
    }
    Ok(())
}

/// The weight of a validated schema.
pub fn weight(schema: &Value) -> usize {
    let (key, length) = key(schema);
    let known = schemas();
    if let Some((_, weight)) = known.weights.iter().find(|(other, _)| *other == key) {
        return *weight;
    }
    let served = known.served(key);
    drop(known);
    let Some(schema) = served.or_else(|| Schema::compile(schema).ok().map(Arc::new)) else { return 0 };
    let weight = schema.weight();
    schemas().wait(key, schema, length);
    weight
}

/// The schema, compiled.
pub fn take(schema: &Value) -> Result<Arc<Schema>, Vec<FieldError>> {
    let (key, _) = key(schema);
    let mut known = schemas();
    let found = known.take(key).or_else(|| known.served(key));
    drop(known);
    let schema = match found {
        Some(schema) => schema,
        None => Arc::new(Schema::compile(schema)?),
    };
    schemas().serve(key, &schema);
    Ok(schema)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema(field: &str) -> Value {
        json!({"type": "object", "properties": {field: {"type": "string", "default": field}}})
    }

    #[test]
    fn what_is_served_is_what_was_judged() {
        let fields: Vec<String> = (0..WAITING + 4).map(|number| format!("judged{number}")).collect();
        for field in &fields {
            validate(&schema(field)).unwrap();
        }
        // Some of them were given up, and are compiled again.
        for field in &fields {
            let mut object = json!({});
            let served = take(&schema(field)).unwrap();
            served.default(&mut object).unwrap();
            assert_eq!(object, json!({field: field}));
            validate(&schema(field)).unwrap();
            let again = take(&schema(field)).unwrap();
            assert!(Arc::ptr_eq(&served, &again), "what is served is known");
        }
        assert!(validate(&json!({"type": "nothing"})).is_err());
        assert!(take(&json!({"type": "nothing"})).is_err());
        let long = |n: usize| {
            let words = "long ".repeat(WAITING_BYTES / 20);
            json!({"type": "object", "description": format!("{n} {words}")})
        };
        for n in 0..8 {
            validate(&long(n)).unwrap();
        }
        let known = schemas();
        assert!(known.waiting.len() <= WAITING && known.served.len() <= SERVED);
        assert!(known.waiting_bytes() <= WAITING_BYTES, "{}", known.waiting_bytes());
    }
}
