//! Random choices, all from one seed.

use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Map, Value, json};

pub struct Chance(StdRng);

/// How a member is made up.
pub type Make = fn(&mut Chance) -> Value;

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    pub fn percent(&mut self, percent: u32) -> bool {
        self.0.random_range(0..100) < percent
    }

    pub fn below(&mut self, end: usize) -> usize {
        self.0.random_range(0..end)
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        of.choose(&mut self.0).unwrap()
    }

    pub fn word(&mut self, of: &[&'static str]) -> &'static str {
        of.choose(&mut self.0).unwrap()
    }

    pub fn text(&mut self) -> Value {
        json!(self.word(&["a", "b", "c", "", "x<y&z>\"q\"", "ünï", "line\nbreak"]))
    }

    pub fn number(&mut self) -> Value {
        json!(*self.pick(&[0, 1, 2, 80, 443, -1, 1_234_567]))
    }

    pub fn key(&mut self) -> &'static str {
        self.word(&["a", "b", "c", "d.e/f"])
    }

    /// Members that are there with a probability.
    pub fn members(&mut self, percent: u32, of: &[(&str, Make)]) -> Map<String, Value> {
        let mut out = Map::new();
        for (name, make) in of {
            if self.percent(percent) {
                out.insert((*name).to_owned(), make(self));
            }
        }
        out
    }

    pub fn entries(&mut self, most: usize, make: impl Fn(&mut Self) -> Value) -> Value {
        let count = self.below(most + 1);
        (0..count).map(|_| (self.key().to_owned(), make(self))).collect::<Map<_, _>>().into()
    }

    pub fn list(&mut self, most: usize, make: impl Fn(&mut Self) -> Value) -> Value {
        let count = self.below(most + 1);
        (0..count).map(|_| make(self)).collect::<Vec<_>>().into()
    }

    /// A list that mostly has no two items alike, as `same` sees them.
    pub fn distinct(&mut self, most: usize, make: Make, same: fn(&Value, &Value) -> bool) -> Value {
        let sloppy = self.percent(4);
        let mut out: Vec<Value> = Vec::new();
        for _ in 0..self.below(most + 1) {
            let item = make(self);
            if sloppy || !out.iter().any(|other| same(other, &item)) {
                out.push(item);
            }
        }
        out.into()
    }

    /// Anything at all.
    pub fn anything(&mut self, depth: u32) -> Value {
        match self.below(if depth == 0 { 5 } else { 8 }) {
            0 => self.text(),
            1 => self.number(),
            2 => json!(self.percent(50)),
            3 => json!(1.5),
            4 => Value::Null,
            5 => self.list(2, |this| this.anything(depth - 1)),
            _ => self.entries(3, |this| this.anything(depth - 1)),
        }
    }
}
