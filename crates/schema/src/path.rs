//! Paths of fields in an object or in a schema.
//!
//! The segments are kept as data so that a caller can look up the place in the document the
//! object came from; `Display` writes them as Kubernetes does.

use std::fmt;

/// One step of a [`FieldPath`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Segment {
    /// A member of an object, written `.name`.
    Field(String),
    /// An element of a list, written `[0]`.
    Index(usize),
    /// A member of an object used as a map, written `[key]`.
    Key(String),
}

/// A path from the root of an object to one of its values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldPath {
    segments: Vec<Segment>,
}

impl FieldPath {
    /// The path of the object itself, written `<nil>` as Kubernetes does.
    pub const fn root() -> Self {
        Self { segments: Vec::new() }
    }

    /// The steps from the root, in order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns whether this is the path of the object itself.
    pub fn is_root(&self) -> bool {
        self.segments.is_empty()
    }

    /// This path with `segment` appended.
    #[must_use]
    pub fn child(&self, segment: Segment) -> Self {
        let mut segments = Vec::with_capacity(self.segments.len() + 1);
        segments.extend_from_slice(&self.segments);
        segments.push(segment);
        Self { segments }
    }

    /// This path with the member `name` appended.
    #[must_use]
    pub fn field(&self, name: &str) -> Self {
        self.child(Segment::Field(name.to_owned()))
    }

    /// This path with the map key `key` appended.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        self.child(Segment::Key(key.to_owned()))
    }

    /// This path with the list index `index` appended.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.child(Segment::Index(index))
    }

    /// This path seen from further up: `prefix` followed by this path.
    #[must_use]
    pub fn under(&self, prefix: &FieldPath) -> Self {
        prefix.segments.iter().chain(&self.segments).cloned().collect()
    }
}

impl FromIterator<Segment> for FieldPath {
    fn from_iter<I: IntoIterator<Item = Segment>>(segments: I) -> Self {
        Self { segments: segments.into_iter().collect() }
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str("<nil>");
        }
        for (position, segment) in self.segments.iter().enumerate() {
            match segment {
                Segment::Field(name) if position == 0 => f.write_str(name)?,
                Segment::Field(name) => write!(f, ".{name}")?,
                Segment::Index(index) => write!(f, "[{index}]")?,
                Segment::Key(key) => write!(f, "[{key}]")?,
            }
        }
        Ok(())
    }
}

/// A path under way: a chain of borrowed steps on the stack, so that a walk over a valid
/// object allocates nothing for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trail<'a> {
    link: Option<(&'a Trail<'a>, Step<'a>)>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Trail<'a> {
    pub const ROOT: Trail<'static> = Trail { link: None };

    pub fn field(&'a self, name: &'a str) -> Trail<'a> {
        Trail { link: Some((self, Step::Field(name))) }
    }

    pub fn index(&'a self, index: usize) -> Trail<'a> {
        Trail { link: Some((self, Step::Index(index))) }
    }

    pub fn key(&'a self, key: &'a str) -> Trail<'a> {
        Trail { link: Some((self, Step::Key(key))) }
    }

    pub fn is_root(&self) -> bool {
        self.link.is_none()
    }

    /// Returns whether this is the object itself, or one of its own fields.
    pub fn is_top(&self) -> bool {
        self.link.is_none_or(|(parent, _)| parent.is_root())
    }

    /// About how many bytes the path has as text.
    pub fn len(self) -> usize {
        let mut bytes = 0;
        let mut trail = &self;
        while let Some((parent, step)) = &trail.link {
            bytes += match step {
                Step::Field(name) | Step::Key(name) => name.len() + 1,
                Step::Index(_) => 3,
            };
            trail = parent;
        }
        bytes
    }

    pub fn to_path(self) -> FieldPath {
        let mut segments = Vec::new();
        let mut trail = &self;
        while let Some((parent, step)) = &trail.link {
            segments.push(match step {
                Step::Field(name) => Segment::Field((*name).to_owned()),
                Step::Index(index) => Segment::Index(*index),
                Step::Key(key) => Segment::Key((*key).to_owned()),
            });
            trail = parent;
        }
        segments.reverse();
        FieldPath { segments }
    }

    /// The path as value validation names it in messages: the root has no name.
    pub fn name(self) -> String {
        if self.is_root() { String::new() } else { self.to_path().to_string() }
    }
}
