//! Schemas that were compiled to be judged, until they are served. A definition is first one and then the other, and
//! compiling its schemas is most of the work of both.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use capt_schema::{FieldError, Schema};
use serde_json::Value;

/// As many wait to be served; one that was judged and never comes is given up.
const WAITING: usize = 16;

/// Two hashes: schemas are too long to be kept only to be compared.
type Key = [u64; 2];

static HASHERS: LazyLock<[RandomState; 2]> = LazyLock::new(|| [RandomState::new(), RandomState::new()]);
static JUDGED: Mutex<VecDeque<(Key, Arc<Schema>)>> = Mutex::new(VecDeque::new());

fn key(schema: &Value) -> Key {
    HASHERS.each_ref().map(|hasher| hasher.hash_one(schema))
}

/// What is wrong with a schema.
pub fn judge(schema: &Value) -> Result<(), Vec<FieldError>> {
    let compiled = (key(schema), Arc::new(Schema::compile(schema)?));
    let mut judged = JUDGED.lock().unwrap_or_else(PoisonError::into_inner);
    judged.retain(|(key, _)| *key != compiled.0);
    judged.truncate(WAITING - 1);
    judged.push_front(compiled);
    Ok(())
}

/// The schema, compiled.
pub fn take(schema: &Value) -> Result<Arc<Schema>, Vec<FieldError>> {
    let key = key(schema);
    let mut judged = JUDGED.lock().unwrap_or_else(PoisonError::into_inner);
    let found = judged.iter().position(|(other, _)| *other == key).and_then(|at| judged.remove(at));
    drop(judged);
    found.map_or_else(|| Schema::compile(schema).map(Arc::new), |(_, schema)| Ok(schema))
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
            judge(&schema(field)).unwrap();
        }
        // Some of them were given up, and are compiled again.
        for field in &fields {
            let mut object = json!({});
            take(&schema(field)).unwrap().default(&mut object);
            assert_eq!(object, json!({field: field}));
        }
        assert!(judge(&json!({"type": "nothing"})).is_err());
        assert!(take(&json!({"type": "nothing"})).is_err());
        assert!(JUDGED.lock().unwrap().len() <= WAITING);
    }
}
