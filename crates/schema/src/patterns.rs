//! The patterns of schemas, compiled: each once, and all of a definition within a bound.
//!
//! A pattern of ten characters can take megabytes, and a definition has room for thousands of them. To match a text takes at
//! worst the product of both sizes, so that counts as work: see [`matching_cost`].

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};

use crate::go::regexp::{CompiledPattern, PatternError, SIZE_LIMIT, compile_within};

/// Bytes that the patterns of one definition may take, compiled: two thousand of the usual ones.
const MOST: usize = 32 << 20;
/// As many patterns are remembered for the next definition.
const REMEMBERED: usize = 64;
/// Longer ones are not, nor ones that take more bytes than this.
const LONGEST: usize = 256;
const LARGEST: usize = 64 << 10;

/// Patterns that were compiled last, the newest first.
static LAST: Mutex<VecDeque<(Box<str>, CompiledPattern)>> = Mutex::new(VecDeque::new());

thread_local! {
    /// Patterns of the definition that this thread compiles.
    static DEFINITION: RefCell<Definition> = RefCell::new(Definition::default());
}

#[derive(Default)]
struct Definition {
    /// The number of holders that keep compiled patterns.
    open: usize,
    /// Those that are refused as well: to find that out takes as long as to compile them.
    known: HashMap<Box<str>, Result<CompiledPattern, PatternError>>,
    taken: usize,
}

/// As long as there is one, all schemas that are compiled on this thread are of one definition: they share patterns, and the
/// bound on what these take.
#[derive(Debug)]
#[must_use]
pub struct OneDefinition(PhantomData<*const ()>);

impl OneDefinition {
    /// Begins a definition, or goes on with the one that is open.
    pub fn open() -> Self {
        DEFINITION.with_borrow_mut(|definition| definition.open += 1);
        Self(PhantomData)
    }
}

impl Drop for OneDefinition {
    fn drop(&mut self) {
        DEFINITION.with_borrow_mut(|definition| {
            definition.open -= 1;
            if definition.open == 0 {
                *definition = Definition::default();
            }
        });
    }
}

/// Counts the work of matching a text of so many bytes with a compiled pattern, in units of about a microsecond at worst: small
/// patterns are matched much faster, but no size tells which.
pub(crate) fn matching_cost(compiled: &CompiledPattern, text: usize) -> u64 {
    let product = u64::try_from(compiled.size)
        .unwrap_or(u64::MAX)
        .saturating_mul(u64::try_from(text).unwrap_or(u64::MAX));
    product >> 17
}

/// Compiles a pattern of a schema: it is checked first and used later, and the same names and addresses are asked for in many
/// places. Not for patterns that come with objects: those would push out all others.
pub(crate) fn of_schema(pattern: &str) -> Result<CompiledPattern, PatternError> {
    DEFINITION.with_borrow_mut(|definition| {
        if let Some(known) = definition.known.get(pattern) {
            return known.clone();
        }
        if definition.taken >= MOST {
            return Err(PatternError::TooLarge(MOST));
        }
        let compiled = compiled(pattern);
        let size = match &compiled {
            Ok(compiled) => compiled.size,
            Err(PatternError::Syntax(regex::Error::CompiledTooBig(_))) => SIZE_LIMIT,
            Err(_) => pattern.len(),
        };
        if definition.open > 0 {
            definition.taken += size;
            if definition.taken > MOST {
                return Err(PatternError::TooLarge(MOST));
            }
            definition.known.insert(pattern.into(), compiled.clone());
        }
        compiled
    })
}

/// One of the patterns that are remembered, or a new one.
fn compiled(pattern: &str) -> Result<CompiledPattern, PatternError> {
    if pattern.len() > LONGEST {
        return compile_within(pattern, SIZE_LIMIT);
    }
    let known = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, compiled)) = known.iter().find(|(text, _)| **text == *pattern) {
        return Ok(compiled.clone());
    }
    drop(known);
    let compiled = compile_within(pattern, SIZE_LIMIT)?;
    if compiled.size <= LARGEST {
        let mut known = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        known.truncate(REMEMBERED - 1);
        known.push_front((pattern.into(), compiled.clone()));
    }
    Ok(compiled)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Schema;

    fn schema(pattern: impl Fn(usize) -> String, count: usize) -> Value {
        let fields = (0..count).map(|n| (format!("f{n}"), json!({"type": "string", "pattern": pattern(n)})));
        json!({"type": "object", "properties": fields.collect::<serde_json::Map<_, _>>()})
    }

    #[test]
    fn all_patterns_of_a_definition_have_one_bound() {
        let large = |n: usize| format!("a{n}.{{999}}");
        assert!(Schema::compile(&schema(large, 1)).is_ok());
        let told = Schema::compile(&schema(large, 100)).unwrap_err();
        let said = "the patterns of one definition take more than 33554432 bytes";
        assert!(told.iter().all(|error| error.to_string().ends_with(said)), "{told:?}");
        // One that does not fit counts as well: three of them are tried, and each of these once.
        let told = Schema::compile(&schema(|n| format!(r"a{n}\pL{{999}}"), 100)).unwrap_err();
        let tried = told.iter().filter(|error| !error.to_string().ends_with(said)).count();
        assert_eq!((told.len(), tried), (100, 3), "{told:?}");
        // The same pattern in many places is one.
        assert!(Schema::compile(&schema(|_| large(0), 1_000)).is_ok());
        assert!(Schema::compile(&schema(|n| format!("^[a-z]{{1,9}}-{n}$"), 1_000)).is_ok());
        // Versions are of one definition, and what comes after them is not.
        let versions: Vec<Value> = (0..100).map(|version| schema(|_| large(version), 1)).collect();
        let definition = OneDefinition::open();
        assert!(versions.iter().any(|version| Schema::compile(version).is_err()));
        drop(definition);
        assert!(versions.iter().all(|version| Schema::compile(version).is_ok()));
    }
}
