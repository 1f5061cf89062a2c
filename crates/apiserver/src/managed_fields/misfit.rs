//! Type mismatches of an object: reported within bounds, and counted beyond them.
//!
//! A long key is in the path of every mistake below it: told of each, a small object becomes gigabytes.

use std::fmt;

use crate::status::shortened;

/// Misfits that are told of one value, and about how many bytes of them: as many as of any other mistake.
const MOST: usize = 100;
const ALL: usize = 64 << 10;
/// Bytes of one message, and of one path.
const TEXT: usize = 32 << 10;
/// Bytes of one step of a path.
const STEP: usize = 1 << 10;

/// One thing that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// The path, as in `.spec.ports[0]`.
    pub path: String,
    /// The message.
    pub message: String,
}

/// Everything that does not fit; never empty when it is an error.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
pub struct Misfits {
    told: Vec<Misfit>,
    /// Of those that are told.
    bytes: usize,
    /// Number of mistakes beyond those that are reported.
    untold: usize,
}

impl Misfits {
    /// The first of them.
    pub fn told(&self) -> &[Misfit] {
        &self.told
    }

    pub(super) fn is_empty(&self) -> bool {
        self.told.is_empty()
    }

    /// Takes one more. Its texts are made if there is room for them.
    pub(super) fn add<S: fmt::Display>(
        &mut self,
        path: impl IntoIterator<Item = S>,
        message: impl FnOnce() -> String,
    ) {
        if self.told.len() >= MOST || self.bytes >= ALL {
            self.untold += 1;
            return;
        }
        let misfit = Misfit { path: path_text(path), message: shortened(message(), TEXT) };
        self.bytes += misfit.path.len() + misfit.message.len();
        self.told.push(misfit);
    }
}

fn path_text<S: fmt::Display>(steps: impl IntoIterator<Item = S>) -> String {
    let mut path = String::new();
    for step in steps {
        path.push_str(&shortened(step.to_string(), STEP));
        if path.len() > TEXT {
            break;
        }
    }
    shortened(path, TEXT)
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

impl fmt::Display for Misfits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let ([only], 0) = (self.told.as_slice(), self.untold) {
            return only.fmt(f);
        }
        f.write_str("errors:")?;
        self.told.iter().try_for_each(|misfit| write!(f, "\n  {misfit}"))?;
        match self.untold {
            0 => Ok(()),
            untold => write!(f, "\n  and {untold} more, which are not told"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_is_not_told_is_not_made() {
        for (step, message, most) in [(5, 5, MOST), (5, 1 << 20, 3), (1 << 20, 5, 66), (3, 2_000, 33)] {
            let (made, mut misfits) = (Cell::new(0), Misfits::default());
            for _ in 0..1_000 {
                misfits.add(["s".repeat(step)], || {
                    made.set(made.get() + 1);
                    "m".repeat(message)
                });
            }
            let told = misfits.told().len();
            assert!(told <= most && made.get() == told, "{step}, {message}: {told} told, {made:?} made");
            assert!(misfits.bytes < 2 * ALL, "{}", misfits.bytes);
            let text = misfits.to_string();
            assert!(text.ends_with(&format!("and {} more, which are not told", 1_000 - told)), "{text}");
        }
    }

    #[test]
    fn long_paths_end() {
        let mut misfits = Misfits::default();
        misfits.add(std::iter::repeat_n("s".repeat(STEP), 1_000), || "no".into());
        assert!(misfits.told()[0].path.len() < TEXT + 100);
    }
}
