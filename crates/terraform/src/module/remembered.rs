//! Cache of the declarations of recent texts: every workspace of a template asks for the same text, in each of its reconciles.
//!
//! A text takes hundreds of times its length while it is read, and a large one seconds: those are read one after the other, beside
//! the threads that serve others, and known by their hash.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use super::{Declared, Format, Problem, read};
use crate::{blocking::in_place, hash::sha256};

/// As many texts are remembered.
const TEXTS: usize = 32;
/// Longer ones are large.
const LONGEST: usize = 64 << 10;
/// As many large ones are: what they declare may be large as well.
const LARGE: usize = 8;

struct Read {
    text: Box<str>,
    format: Format,
    found: Result<Declared, Problem>,
}

/// The newest first.
static READ: Mutex<VecDeque<Read>> = Mutex::new(VecDeque::new());
/// The same of large ones, of which one is read at a time. In place of the text is its hash.
static READ_LARGE: Mutex<VecDeque<Read>> = Mutex::new(VecDeque::new());

pub(super) fn declared(text: &str, format: Format) -> Result<Declared, Problem> {
    if text.len() > LONGEST {
        return in_place(|| large(text, format));
    }
    if let Some(found) = known(&mut READ.lock().unwrap_or_else(PoisonError::into_inner), text, format) {
        return found;
    }
    let found = read(text, format);
    let mut all = READ.lock().unwrap_or_else(PoisonError::into_inner);
    all.truncate(TEXTS - 1);
    all.push_front(Read { text: text.into(), format, found: found.clone() });
    found
}

fn large(text: &str, format: Format) -> Result<Declared, Problem> {
    let name = sha256([text.as_bytes()]);
    let mut all = READ_LARGE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = known(&mut all, &name, format) {
        return found;
    }
    let found = read(text, format);
    all.truncate(LARGE - 1);
    all.push_front(Read { text: name.into(), format, found: found.clone() });
    found
}

/// Returns the cached result of a text, which becomes the newest.
fn known(all: &mut VecDeque<Read>, text: &str, format: Format) -> Option<Result<Declared, Problem>> {
    let at = all.iter().position(|read| read.format == format && *read.text == *text)?;
    let read = all.remove(at)?;
    let found = read.found.clone();
    all.push_front(read);
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(text: &str, format: Format) -> Vec<String> {
        declared(text, format).map(|declared| declared.variables.into_keys().collect()).unwrap_or_default()
    }

    #[test]
    fn a_text_is_what_it_says_however_often_it_is_asked_for() {
        for _ in 0..2 {
            for number in 0..TEXTS + 3 {
                assert_eq!(
                    variables(&format!("variable \"v{number}\" {{}}"), Format::Hcl),
                    [format!("v{number}")]
                );
            }
        }
        let padding = "# large\n".repeat(LONGEST / 8);
        for number in (0..LARGE + 2).chain(0..2) {
            let text = format!("{padding}variable \"large{number}\" {{}}");
            assert_eq!(variables(&text, Format::Hcl), [format!("large{number}")]);
            assert_eq!(variables(&text, Format::Hcl), [format!("large{number}")], "from memory");
        }
        assert!(READ_LARGE.lock().unwrap_or_else(PoisonError::into_inner).len() <= LARGE);
        let both = r#"{"variable": {"a": {}}}"#;
        assert_eq!(variables(both, Format::Json), ["a"]);
        assert!(declared(both, Format::Hcl).is_err(), "another format is another text");
        assert!(READ.lock().unwrap_or_else(PoisonError::into_inner).len() <= TEXTS);
    }
}
