//! What is made when it is first asked for: a start waits for nothing that it does not use.

use std::fmt;
use std::ops::Deref;
use std::sync::LazyLock;

/// A value, or how it will be made.
pub struct Later<T>(LazyLock<T, Box<dyn FnOnce() -> T + Send>>);

impl<T> Later<T> {
    /// Made by `make`, once.
    pub fn new(make: impl FnOnce() -> T + Send + 'static) -> Self {
        Self(LazyLock::new(Box::new(make)))
    }
}

impl<T: Send + 'static> From<T> for Later<T> {
    fn from(value: T) -> Self {
        Self::new(|| value)
    }
}

impl<T> Deref for Later<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: PartialEq> PartialEq for Later<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

/// Without making it.
impl<T> fmt::Debug for Later<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Later")
    }
}
