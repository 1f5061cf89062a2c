//! The patterns of schemas, compiled: each once, and all of a definition within a bound.
//!
//! A pattern of ten characters can take megabytes, and a definition has room for thousands of them.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};

use regex::Regex;

use crate::go::regexp::{PatternError, SIZE_LIMIT, compile_within};

/// Bytes that the patterns of one definition may take, compiled: two thousand of the usual ones.
const MOST: usize = 32 << 20;
/// As many patterns are remembered for the next definition.
const REMEMBERED: usize = 64;
/// Longer ones are not, nor ones that take more bytes than this.
const LONGEST: usize = 256;
const LARGEST: usize = 64 << 10;

/// Patterns that were compiled last, the newest first, and what they take.
static LAST: Mutex<VecDeque<(Box<str>, Regex, usize)>> = Mutex::new(VecDeque::new());

thread_local! {
    /// What is compiled on this thread.
    static DEFINITION: RefCell<Definition> = RefCell::new(Definition::default());
}

#[derive(Default)]
struct Definition {
    /// How many ask for it to be remembered.
    open: usize,
    /// Those that are refused as well: to find that out takes as long as to compile them.
    known: HashMap<Box<str>, Result<Regex, PatternError>>,
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

/// Compiles a pattern of a schema: it is checked first and used later, and the same names and addresses are asked for in many
/// places. Not for patterns that come with objects: those would push out all others.
pub(crate) fn of_schema(pattern: &str) -> Result<Regex, PatternError> {
    DEFINITION.with_borrow_mut(|definition| {
        if let Some(known) = definition.known.get(pattern) {
            return known.clone();
        }
        if definition.taken >= MOST {
            return Err(PatternError::TooLarge(MOST));
        }
        let (compiled, size) = match compiled(pattern) {
            Ok((regex, size)) => (Ok(regex), size),
            Err(error @ PatternError::Syntax(regex::Error::CompiledTooBig(_))) => (Err(error), SIZE_LIMIT),
            Err(error) => (Err(error), pattern.len()),
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

/// A pattern and what it takes, of those that are remembered or made.
fn compiled(pattern: &str) -> Result<(Regex, usize), PatternError> {
    if pattern.len() > LONGEST {
        return compile_within(pattern, SIZE_LIMIT);
    }
    let known = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, regex, size)) = known.iter().find(|(text, ..)| **text == *pattern) {
        return Ok((regex.clone(), *size));
    }
    drop(known);
    let (regex, size) = compile_within(pattern, SIZE_LIMIT)?;
    if size <= LARGEST {
        let mut known = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        known.truncate(REMEMBERED - 1);
        known.push_front((pattern.into(), regex.clone(), size));
    }
    Ok((regex, size))
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
