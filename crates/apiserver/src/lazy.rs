//! Values that are computed on first use, so that a start waits for nothing that it does not need.

use std::fmt;
use std::ops::Deref;
use std::sync::LazyLock;

/// A value, or the function that computes it.
pub struct Lazy<T>(LazyLock<T, Box<dyn FnOnce() -> T + Send>>);

impl<T> Lazy<T> {
    /// A value that `make` computes on first use.
    pub fn new(make: impl FnOnce() -> T + Send + 'static) -> Self {
        Self(LazyLock::new(Box::new(make)))
    }
}

impl<T: Send + 'static> From<T> for Lazy<T> {
    fn from(value: T) -> Self {
        Self::new(|| value)
    }
}

impl<T> Deref for Lazy<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: PartialEq> PartialEq for Lazy<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

/// Prints no value: that would compute it.
impl<T> fmt::Debug for Lazy<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lazy")
    }
}
