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

/// Deeper nesting is refused, aliases included; real manifests stay below twenty. An object of this depth can be stored as JSON
/// together with the fields that are managed of it.
const DEEPEST: usize = 120;
/// Bounds a document of a file.
const MOST_NODES: usize = 2_000_000;
/// Bounds a document that a client sends; as many values as it may send as JSON.
const MOST_NODES_SENT: usize = 500_000;
/// Bounds what aliases of aliases can grow to ("billion laughs").
const MOST_ALIASED: usize = 200_000;
/// Bounds the bytes of the texts and keys among them, in a document of a file: an alias of four bytes may stand for megabytes.
const MOST_ALIASED_BYTES: usize = 64 << 20;
/// Likewise in a document that a client sends: twice what an object may have, as an anchor keeps a copy for its aliases.
const MOST_ALIASED_BYTES_SENT: usize = 6 << 20;

/// A place in a file; both count from one.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd, serde::Serialize)]
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
    /// The position of its first character.
    pub at: Position,
    /// The value.
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
        /// The number.
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
    /// The position of the key.
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

    /// The name of the kind of this value, for messages.
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
    /// The position.
    pub at: Position,
    /// The error.
    pub problem: YamlProblem,
}

/// A malformed document.
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
    let mut documents = documents(text);
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
        builder.most_nodes = MOST_NODES_SENT;
        builder.most_aliased_bytes = MOST_ALIASED_BYTES_SENT;
        let (roots, repeated) = builder.build(part)?;
        if let Some(root) = roots.first() {
            return Ok((root.to_json(), repeated));
        }
    }
    Ok((Value::Null, Vec::new()))
}

/// Reads every document of a stream that is not empty, one after the other; each stands or falls alone.
pub fn documents(text: &str) -> impl Iterator<Item = Result<Document, YamlError>> {
    split(text).into_iter().flat_map(|(first_line, part)| match Builder::new(first_line).build(part) {
        Ok((roots, _)) => roots.into_iter().map(|root| Ok(Document { root })).collect(),
        Err(error) => vec![Err(error)],
    })
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
    Map(Box<OpenMap>),
}

#[derive(Default)]
struct OpenMap {
    at: Position,
    anchor: usize,
    members: Vec<Member>,
    /// Keys that are written here, as against those that a merge brought in.
    written: HashSet<String>,
    /// Keys that are here, wherever they are from.
    present: HashSet<String>,
    /// True if a key is among the members more than once.
    replaced: bool,
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
    anchors: HashMap<usize, (Node, Extent)>,
    nodes: usize,
    most_nodes: usize,
    /// Nodes that aliases and anchors have made copies of.
    aliased: usize,
    /// Bytes of their texts and keys.
    aliased_bytes: usize,
    most_aliased_bytes: usize,
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
            most_nodes: MOST_NODES,
            aliased: 0,
            aliased_bytes: 0,
            most_aliased_bytes: MOST_ALIASED_BYTES,
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
                self.enter(Open::Map(Box::new(OpenMap { at, anchor, ..OpenMap::default() })))
            }
            Event::SequenceEnd | Event::MappingEnd => self.leave(),
            Event::Alias(anchor) => {
                let extent = self.anchors.get(&anchor).ok_or(YamlProblem::TooLarge)?.1;
                self.copy(extent)?;
                if self.open.len() + extent.depth > DEEPEST {
                    return Err(YamlProblem::TooDeep);
                }
                let (node, _) = self.anchors.get(&anchor).ok_or(YamlProblem::TooLarge)?;
                self.add(Node { at, value: node.value.clone() })
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
            self.keep(anchor, &node)?;
        }
        self.add(node)
    }

    fn count(&mut self, nodes: usize) -> Result<(), YamlProblem> {
        self.nodes += nodes;
        if self.nodes > self.most_nodes { Err(YamlProblem::TooLarge) } else { Ok(()) }
    }

    /// Counts a copy of a node, before it is made.
    fn copy(&mut self, extent: Extent) -> Result<(), YamlProblem> {
        self.aliased += extent.nodes;
        self.aliased_bytes += extent.bytes;
        if self.aliased > MOST_ALIASED || self.aliased_bytes > self.most_aliased_bytes {
            return Err(YamlProblem::TooLarge);
        }
        self.count(extent.nodes)
    }

    /// Keeps a node for the aliases of its anchor.
    fn keep(&mut self, anchor: usize, node: &Node) -> Result<(), YamlProblem> {
        let extent = Extent::of(node);
        self.copy(extent)?;
        self.anchors.insert(anchor, (node.clone(), extent));
        Ok(())
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
            Some(Open::Map(map)) => {
                let (at, anchor) = (map.at, map.anchor);
                (Node { at, value: NodeValue::Map(map.finish()) }, anchor)
            }
            None => return Ok(()),
        };
        if anchor != 0 {
            self.keep(anchor, &node)?;
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
            Some(Key::Merge) => self.merge(value),
            // What comes again, or was brought in by a merge, gives way to what is written here.
            Some(Key::Again(key, key_at, _) | Key::Name(key, key_at)) => {
                self.put(Member { key, key_at, value });
                Ok(())
            }
        }
    }

    /// Adds a member behind the others; one of its key that is there goes when the map is complete.
    fn put(&mut self, member: Member) {
        if !self.present.insert(member.key.clone()) {
            self.replaced = true;
        }
        self.members.push(member);
    }

    /// `<<: *anchor`: members that are not there yet.
    fn merge(&mut self, node: Node) -> Result<(), YamlProblem> {
        match node.value {
            NodeValue::Map(more) => {
                for member in more {
                    if self.present.insert(member.key.clone()) {
                        self.members.push(member);
                    }
                }
                Ok(())
            }
            NodeValue::List(maps) => maps.into_iter().try_for_each(|map| self.merge(map)),
            _ => Err(YamlProblem::Merge),
        }
    }

    /// The members, of each key the last one.
    fn finish(self) -> Vec<Member> {
        if !self.replaced {
            return self.members;
        }
        let mut seen = HashSet::with_capacity(self.present.len());
        let mut members: Vec<Member> =
            self.members.into_iter().rev().filter(|member| seen.insert(member.key.clone())).collect();
        members.reverse();
        members
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

/// The size of a node.
#[derive(Clone, Copy)]
struct Extent {
    nodes: usize,
    /// Levels of lists and maps.
    depth: usize,
    /// Of texts and keys.
    bytes: usize,
}

impl Extent {
    fn of(node: &Node) -> Self {
        let empty = Self { nodes: 1, depth: 1, bytes: 0 };
        match &node.value {
            NodeValue::List(items) => items.iter().fold(empty, |all, item| all.with(Self::of(item))),
            NodeValue::Map(members) => members.iter().fold(empty, |all, member| {
                let key = Self { nodes: 1, depth: 0, bytes: member.key.len() };
                all.with(key).with(Self::of(&member.value))
            }),
            NodeValue::String(text) | NodeValue::Number { text, .. } => {
                Self { nodes: 1, depth: 0, bytes: text.len() }
            }
            NodeValue::Null | NodeValue::Bool(_) => Self { nodes: 1, depth: 0, bytes: 0 },
        }
    }

    /// This list or map with one more node in it.
    fn with(self, inner: Self) -> Self {
        Self {
            nodes: self.nodes + inner.nodes,
            depth: self.depth.max(inner.depth + 1),
            bytes: self.bytes + inner.bytes,
        }
    }
}

#[cfg(test)]
mod tests;
