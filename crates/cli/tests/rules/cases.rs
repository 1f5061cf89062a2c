//! The case tables.

use std::fmt;
use std::path::Path;

use serde_json::{Map, Value};

/// One case of a table.
pub struct Case {
    pub file: String,
    pub name: String,
    /// The object before an update.
    pub old: Option<Value>,
    pub new: Value,
    pub expected: Expected,
}

/// What a table says of a case.
pub enum Expected {
    Accept,
    Refuse(String),
}

/// What became of a case.
#[derive(Debug, PartialEq)]
pub enum Verdict {
    Accepted,
    /// All that was said, sorted.
    Refused(Vec<Refusal>),
}

/// One thing that was said of one field.
#[derive(Debug, PartialEq, PartialOrd, Eq, Ord)]
pub struct Refusal {
    pub field: String,
    pub message: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

impl Verdict {
    /// A verdict from all that was said.
    pub fn of(mut refusals: Vec<Refusal>) -> Self {
        refusals.sort();
        if refusals.is_empty() { Self::Accepted } else { Self::Refused(refusals) }
    }
}

/// Reads every table.
pub fn load() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../api/rules");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder of the tables")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "yaml"))
        .collect();
    files.sort();
    files.iter().flat_map(|path| read(path)).collect()
}

fn read(path: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(path).expect("a table");
    let table: Value =
        serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file = path.file_stem().expect("a name").to_string_lossy().into_owned();
    let base = &table["base"];
    table["cases"].as_array().expect("cases").iter().map(|case| parse(&file, base, case)).collect()
}

fn parse(file: &str, base: &Value, case: &Value) -> Case {
    let name = case["name"].as_str().expect("a name").to_owned();
    let expected = match (&case["accept"], &case["refuse"]) {
        (Value::Bool(true), Value::Null) => Expected::Accept,
        (Value::Null, Value::String(text)) => Expected::Refuse(text.clone()),
        _ => panic!("{file} / {name}: a case has accept: true, or refuse: TEXT"),
    };
    let patched = |patch: &Value| {
        let mut object = base.clone();
        merge(&mut object, patch);
        object
    };
    let old = case.get("from").map(&patched);
    Case { file: file.to_owned(), name, old, new: patched(&case["patch"]), expected }
}

/// JSON merge patch (RFC 7386).
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key).or_insert(Value::Null), value);
        }
    }
}
