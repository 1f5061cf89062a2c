//! Suggestions for misspelt words.

/// Bytes of a word that somebody typed; a longer one is no slip of any known one.
const LONGEST: usize = 256;

/// The known word nearest to `word`, if one is near enough to be a slip of the finger.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > LONGEST {
        return None;
    }
    let lower = word.to_lowercase();
    known
        .into_iter()
        .map(|candidate| (distance(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.chars().count() / 5)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Edits (insert, delete, replace, swap neighbours) that turn one word into the other.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut before_last = vec![0; to.len() + 1];
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (row, a) in from.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, b) in to.iter().enumerate() {
            let replace = last[column] + usize::from(a != b);
            let mut best = replace.min(last[column + 1] + 1).min(current[column] + 1);
            if row > 0 && column > 0 && *a == to[column - 1] && from[row - 1] == *b {
                best = best.min(before_last[column - 1] + 1);
            }
            current.push(best);
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn slips_are_recognised_and_other_words_are_not() {
        let known = ["replicas", "selector", "template", "strategy", "paused", "minReadySeconds"];
        let rows = [
            ("replica", Some("replicas")),
            ("relpicas", Some("replicas")),
            ("minreadyseconds", Some("minReadySeconds")),
            ("Selector", Some("selector")),
            ("strategie", Some("strategy")),
            ("pause", Some("paused")),
            ("count", None),
            ("", None),
        ];
        for (word, expected) in rows {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
    }
}
