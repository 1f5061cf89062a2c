//! YAML with the position of every key and value.
//!
//! A stream is cut at its `---` lines first, as kubectl does, so that a mistake in one document does not
//! hide the next. Documents are built without recursion, with bounds on depth and on what aliases may
//! blow up to.

use std::collections::{HashMap, HashSet};
use std::fmt;

use granit_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Number, Value};

use crate::scalar;

/// Deeper nesting is refused; real manifests stay below twenty.
const DEEPEST: usize = 128;
/// Bounds what aliases of aliases can grow to ("billion laughs").
const MOST_NODES: usize = 2_000_000;

/// A place in a file; both count from one.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, serde::Serialize)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

impl Position {
    /// The place right after `text`.
    pub fn at_end_of(text: &str) -> Self {
        let last = text.rsplit('\n').next().unwrap_or_default();
        Self { line: text.matches('\n').count() + 1, column: last.chars().count() + 1 }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// One document of a stream, with something in it.
#[derive(Debug)]
pub struct Document {
    /// All of it.
    pub root: Node,
}

/// A value and where it stands.
#[derive(Clone, Debug)]
pub struct Node {
    /// Where it begins.
    pub at: Position,
    /// What it is.
    pub value: NodeValue,
}

/// A value.
#[derive(Clone, Debug)]
pub enum NodeValue {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A number.
    Number {
        /// What it is.
        value: Number,
        /// As written: `1.30`, where the value is 1.3.
        text: String,
    },
    /// A text.
    String(String),
    /// A list.
    List(Vec<Node>),
    /// A map.
    Map(Vec<Member>),
}

/// One `key: value` of a map.
#[derive(Clone, Debug)]
pub struct Member {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub key_at: Position,
    /// The value.
    pub value: Node,
}

impl Node {
    /// The member `key` of a map.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.member(key).map(|member| &member.value)
    }

    /// The member `key` of a map, with the position of the key.
    pub fn member(&self, key: &str) -> Option<&Member> {
        match &self.value {
            NodeValue::Map(members) => members.iter().find(|member| member.key == key),
            _ => None,
        }
    }

    /// The text, where the value is a string.
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            NodeValue::String(text) => Some(text),
            _ => None,
        }
    }

    /// What kind of value this is, in words.
    pub fn describe(&self) -> &'static str {
        match self.value {
            NodeValue::Null => "nothing",
            NodeValue::Bool(_) => "a boolean",
            NodeValue::Number { .. } => "a number",
            NodeValue::String(_) => "a string",
            NodeValue::List(_) => "a list",
            NodeValue::Map(_) => "a map",
        }
    }

    /// The value without positions.
    pub fn to_json(&self) -> Value {
        match &self.value {
            NodeValue::Null => Value::Null,
            NodeValue::Bool(value) => Value::Bool(*value),
            NodeValue::Number { value, .. } => Value::Number(value.clone()),
            NodeValue::String(text) => Value::String(text.clone()),
            NodeValue::List(items) => items.iter().map(Node::to_json).collect(),
            NodeValue::Map(members) => Value::Object(
                members
                    .iter()
                    .map(|member| (member.key.clone(), member.value.to_json()))
                    .collect::<Map<_, _>>(),
            ),
        }
    }
}

/// Why a document cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{problem}")]
pub struct YamlError {
    /// Where.
    pub at: Position,
    /// What.
    pub problem: YamlProblem,
}

/// What is wrong with a document.
#[derive(Debug, thiserror::Error)]
pub enum YamlProblem {
    /// It is not YAML.
    #[error("not YAML: {0}")]
    Syntax(String),
    /// A map has a key twice.
    #[error("key {0:?} is there twice in this map")]
    DuplicateKey(String),
    /// A key is a list or a map.
    #[error("a key must be text, not a list or a map")]
    ComplexKey,
    /// A merge of something that is no map.
    #[error("<< takes a map, or a list of maps")]
    Merge,
    /// A scalar has no JSON value.
    #[error(transparent)]
    Scalar(#[from] scalar::ScalarError),
    /// It is nested too deep.
    #[error("nested deeper than {DEEPEST} levels")]
    TooDeep,
    /// Aliases make it too large.
    #[error("aliases make this document too large")]
    TooLarge,
    /// There is more than one document where one is expected.
    #[error("there is more than one document")]
    Several,
}

/// Reads a text that is one document; an empty one is nothing.
pub fn single(text: &str) -> Result<Value, YamlError> {
    let mut documents = documents(text).into_iter();
    let first = documents.next().transpose()?.map_or(Value::Null, |document| document.root.to_json());
    match documents.next() {
        None => Ok(first),
        Some(Ok(second)) => Err(YamlError { at: second.root.at, problem: YamlProblem::Several }),
        Some(Err(error)) => Err(error),
    }
}

/// A key that a map has again.
#[derive(Clone, Debug, PartialEq)]
pub struct Repeated {
    /// The line of the value it has there.
    pub line: usize,
    /// The key, before it was made a text.
    pub key: Value,
}

/// Reads the first document of a stream that is not empty, as a server reads it that does not look: of a key that is
/// there twice the last value counts. Such keys come along, in the order in which their values end.
pub fn lenient(text: &str) -> Result<(Value, Vec<Repeated>), YamlError> {
    for (first_line, part) in split(text) {
        let mut builder = Builder::new(first_line);
        builder.repeated = Some(Vec::new());
        let (roots, repeated) = builder.build(part)?;
        if let Some(root) = roots.first() {
            return Ok((root.to_json(), repeated));
        }
    }
    Ok((Value::Null, Vec::new()))
}

/// Reads every document of a stream that is not empty; each stands or falls alone.
pub fn documents(text: &str) -> Vec<Result<Document, YamlError>> {
    let mut documents = Vec::new();
    for (first_line, part) in split(text) {
        match Builder::new(first_line).build(part) {
            Ok((roots, _)) => documents.extend(roots.into_iter().map(|root| Ok(Document { root }))),
            Err(error) => documents.push(Err(error)),
        }
    }
    documents
}

/// Cuts a stream in front of every line that starts with `---`; gives the number of lines before each part.
fn split(text: &str) -> Vec<(usize, &str)> {
    let mut parts = Vec::new();
    let (mut start, mut start_line) = (0, 0);
    let mut offset = 0;
    for (line, content) in text.split_inclusive('\n').enumerate() {
        let marker = content
            .strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
        if marker && offset > start {
            parts.push((start_line, &text[start..offset]));
            (start, start_line) = (offset, line);
        }
        offset += content.len();
    }
    parts.push((start_line, &text[start..]));
    parts
}

/// A list or map that is not complete yet.
enum Open {
    List { at: Position, anchor: usize, items: Vec<Node> },
    Map(OpenMap),
}

struct OpenMap {
    at: Position,
    anchor: usize,
    members: Vec<Member>,
    /// Keys that are written here, as against those that a merge brought in.
    written: HashSet<String>,
    /// The key whose value comes next.
    key: Option<Key>,
}

enum Key {
    Merge,
    Name(String, Position),
    /// One that was there before.
    Again(String, Position, Value),
}

/// Turns the events of one part of a stream into nodes.
struct Builder {
    first_line: usize,
    open: Vec<Open>,
    anchors: HashMap<usize, (Node, usize)>,
    nodes: usize,
    roots: Vec<Node>,
    /// Keys that are there again; `None` where that is a mistake.
    repeated: Option<Vec<Repeated>>,
}

impl Builder {
    fn new(first_line: usize) -> Self {
        Self {
            first_line,
            open: Vec::new(),
            anchors: HashMap::new(),
            nodes: 0,
            roots: Vec::new(),
            repeated: None,
        }
    }

    fn build(mut self, text: &str) -> Result<(Vec<Node>, Vec<Repeated>), YamlError> {
        for next in Parser::new_from_str(text) {
            let (event, span) = next.map_err(|error| YamlError {
                at: self.position(error.marker().line(), error.marker().col()),
                problem: YamlProblem::Syntax(error.info()),
            })?;
            let at = self.position(span.start.line(), span.start.col());
            self.take(event, at).map_err(|problem| YamlError { at, problem })?;
        }
        // `---` with nothing behind it is no document.
        self.roots.retain(|root| !matches!(root.value, NodeValue::Null));
        Ok((self.roots, self.repeated.unwrap_or_default()))
    }

    fn position(&self, line: usize, column: usize) -> Position {
        Position { line: self.first_line + line.max(1), column: column + 1 }
    }

    fn take(&mut self, event: Event<'_>, at: Position) -> Result<(), YamlProblem> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let quoted = style != ScalarStyle::Plain;
                let is_text = quoted || tag.is_some_and(|tag| tag.to_string().ends_with("str"));
                self.scalar(&text, is_text, anchor, at)
            }
            Event::SequenceStart(_, anchor, _) => self.enter(Open::List { at, anchor, items: Vec::new() }),
            Event::MappingStart(_, anchor, _) => {
                let (members, written) = (Vec::new(), HashSet::new());
                self.enter(Open::Map(OpenMap { at, anchor, members, written, key: None }))
            }
            Event::SequenceEnd | Event::MappingEnd => self.leave(),
            Event::Alias(anchor) => {
                let (node, size) = self.anchors.get(&anchor).cloned().ok_or(YamlProblem::TooLarge)?;
                self.count(size)?;
                self.add(Node { at, ..node })
            }
            _ => Ok(()),
        }
    }

    fn scalar(&mut self, text: &str, is_text: bool, anchor: usize, at: Position) -> Result<(), YamlProblem> {
        self.count(1)?;
        if let Some(Open::Map(map)) = self.open.last_mut()
            && map.key.is_none()
        {
            return map.take_key(text, is_text, at, self.repeated.is_some());
        }
        let value = if is_text {
            NodeValue::String(text.to_owned())
        } else {
            match scalar::resolve(text)? {
                Value::Bool(value) => NodeValue::Bool(value),
                Value::Number(value) => NodeValue::Number { value, text: text.to_owned() },
                Value::String(text) => NodeValue::String(text),
                Value::Null | Value::Array(_) | Value::Object(_) => NodeValue::Null,
            }
        };
        let node = Node { at, value };
        if anchor != 0 {
            self.anchors.insert(anchor, (node.clone(), 1));
        }
        self.add(node)
    }

    fn count(&mut self, nodes: usize) -> Result<(), YamlProblem> {
        self.nodes += nodes;
        if self.nodes > MOST_NODES { Err(YamlProblem::TooLarge) } else { Ok(()) }
    }

    fn enter(&mut self, open: Open) -> Result<(), YamlProblem> {
        self.count(1)?;
        if matches!(self.open.last(), Some(Open::Map(map)) if map.key.is_none()) {
            return Err(YamlProblem::ComplexKey);
        }
        if self.open.len() == DEEPEST {
            return Err(YamlProblem::TooDeep);
        }
        self.open.push(open);
        Ok(())
    }

    fn leave(&mut self) -> Result<(), YamlProblem> {
        let (node, anchor) = match self.open.pop() {
            Some(Open::List { at, anchor, items }) => (Node { at, value: NodeValue::List(items) }, anchor),
            Some(Open::Map(map)) => (Node { at: map.at, value: NodeValue::Map(map.members) }, map.anchor),
            None => return Ok(()),
        };
        if anchor != 0 {
            let size = size(&node);
            self.anchors.insert(anchor, (node.clone(), size));
        }
        self.add(node)
    }

    /// Puts a complete node where it belongs.
    fn add(&mut self, node: Node) -> Result<(), YamlProblem> {
        match self.open.last_mut() {
            None => self.roots.push(node),
            Some(Open::List { items, .. }) => items.push(node),
            Some(Open::Map(map)) => {
                if let (Some(Key::Again(_, _, key)), Some(repeated)) = (&map.key, &mut self.repeated) {
                    repeated.push(Repeated { line: node.at.line, key: key.clone() });
                }
                map.take_value(node)?;
            }
        }
        Ok(())
    }
}

impl OpenMap {
    fn take_key(
        &mut self,
        text: &str,
        is_text: bool,
        at: Position,
        may_repeat: bool,
    ) -> Result<(), YamlProblem> {
        if !is_text && text == "<<" {
            self.key = Some(Key::Merge);
            return Ok(());
        }
        let key = if is_text { Value::from(text) } else { scalar::resolve(text)? };
        let name = key_text(&key);
        self.key = Some(if self.written.insert(name.clone()) {
            Key::Name(name, at)
        } else if may_repeat {
            Key::Again(name, at, key)
        } else {
            return Err(YamlProblem::DuplicateKey(name));
        });
        Ok(())
    }

    fn take_value(&mut self, value: Node) -> Result<(), YamlProblem> {
        match self.key.take() {
            None => Err(YamlProblem::ComplexKey),
            Some(Key::Merge) => merge(&mut self.members, value),
            Some(Key::Again(key, key_at, _)) => {
                self.members.retain(|member| member.key != key);
                self.members.push(Member { key, key_at, value });
                Ok(())
            }
            Some(Key::Name(key, key_at)) => {
                // What a merge brought in gives way to what is written here.
                if self.members.len() >= self.written.len() {
                    self.members.retain(|member| member.key != key);
                }
                self.members.push(Member { key, key_at, value });
                Ok(())
            }
        }
    }
}

/// `<<: *anchor`: members that are not there yet.
fn merge(members: &mut Vec<Member>, node: Node) -> Result<(), YamlProblem> {
    match node.value {
        NodeValue::Map(more) => {
            for member in more {
                if !members.iter().any(|known| known.key == member.key) {
                    members.push(member);
                }
            }
            Ok(())
        }
        NodeValue::List(maps) => maps.into_iter().try_for_each(|map| merge(members, map)),
        _ => Err(YamlProblem::Merge),
    }
}

/// Keys are text; kubectl writes a plain `1` or `yes` as the text of what it means.
fn key_text(key: &Value) -> String {
    match key {
        Value::String(text) => text.clone(),
        Value::Null => "null".into(),
        other => other.to_string(),
    }
}

fn size(node: &Node) -> usize {
    match &node.value {
        NodeValue::List(items) => 1 + items.iter().map(size).sum::<usize>(),
        NodeValue::Map(members) => 1 + members.iter().map(|member| 1 + size(&member.value)).sum::<usize>(),
        _ => 1,
    }
}

#[cfg(test)]
mod tests;
