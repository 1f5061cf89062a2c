//! What the texts that were read last declare: every workspace of a template asks for the same text, and asks each time it is
//! looked at.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use super::{Declared, Format, Problem, read};

/// As many texts are remembered.
const TEXTS: usize = 32;
/// Longer ones are not.
const LONGEST: usize = 64 << 10;

struct Read {
    text: Box<str>,
    format: Format,
    found: Result<Declared, Problem>,
}

/// The newest first.
static READ: Mutex<VecDeque<Read>> = Mutex::new(VecDeque::new());

pub(super) fn declared(text: &str, format: Format) -> Result<Declared, Problem> {
    if text.len() > LONGEST {
        return read(text, format);
    }
    let mut all = READ.lock().unwrap_or_else(PoisonError::into_inner);
    let known = all.iter().position(|read| read.format == format && *read.text == *text);
    if let Some(known) = known.and_then(|at| all.remove(at)) {
        let found = known.found.clone();
        all.push_front(known);
        return found;
    }
    drop(all);
    let found = read(text, format);
    let mut all = READ.lock().unwrap_or_else(PoisonError::into_inner);
    all.truncate(TEXTS - 1);
    all.push_front(Read { text: text.into(), format, found: found.clone() });
    found
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
        let both = r#"{"variable": {"a": {}}}"#;
        assert_eq!(variables(both, Format::Json), ["a"]);
        assert!(declared(both, Format::Hcl).is_err(), "another format is another text");
        assert!(READ.lock().unwrap_or_else(PoisonError::into_inner).len() <= TEXTS);
    }
}
