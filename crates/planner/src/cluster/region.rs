//! Syntax of a region, for those that no CRD has checked.

/// Why a text is not the name of a region; none where it may be one.
pub fn problem(text: &str) -> Option<&'static str> {
    let word =
        |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let words: Vec<&str> = text.split('-').collect();
    let letter = text.starts_with(|c: char| c.is_ascii_lowercase());
    if text.len() > 63 || !letter || !words.iter().all(|one| word(one)) {
        return Some("a region is written in lower-case words joined by dashes, for example us-east-1");
    }
    let zone = words.last().is_some_and(|last| {
        let number = last.trim_end_matches(|c: char| c.is_ascii_lowercase());
        last.len() == number.len() + 1 && !number.is_empty() && number.chars().all(|c| c.is_ascii_digit())
    });
    if zone && words.len() > 2 {
        return Some("this is an availability zone: write the region, without the last letter");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::problem;

    #[test]
    fn what_is_a_region() {
        for good in ["eu-west-1", "us-gov-west-1", "europe-west4", "westeurope", "ap-northeast-1"] {
            assert_eq!(problem(good), None, "{good}");
        }
        for bad in ["", "EU-west-1", "eu_west_1", "eu west", "-eu", "eu-", "1eu", "eu-west-1a", "https://eu"]
        {
            assert!(problem(bad).is_some(), "{bad}");
        }
    }
}
