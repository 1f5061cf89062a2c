//! Names of children. They follow from the parent alone, so a create that is repeated is the same create.
//!
//! A set is `{deployment}-{hash}`; a machine is `{set}-{number}`, the number in base 36. Numbers count up and are
//! written to the set's status before the machine is created ([`capt_api::machine::Allocation`]): a machine that is
//! still being destroyed never shares its name with its replacement.

/// 36^5: five characters after the set's name. A set that has made sixty million machines starts over.
const NUMBERS: i64 = 36 * 36 * 36 * 36 * 36;
const DIGITS: usize = 5;

/// Name of a deployment's set.
pub fn set_name(deployment: &str, hash: &str) -> String {
    format!("{deployment}-{hash}")
}

/// Name of a set's machine.
pub fn machine_name(set: &str, number: i64) -> String {
    let mut rest = number.rem_euclid(NUMBERS);
    let mut digits = Vec::with_capacity(5);
    loop {
        let digit = u32::try_from(rest % 36).expect("less than 36");
        digits.push(char::from_digit(digit, 36).expect("less than 36"));
        rest /= 36;
        if rest == 0 {
            break;
        }
    }
    let suffix: String = digits.into_iter().rev().collect();
    format!("{set}-{suffix}")
}

/// Number in the name of a set's machine; none where the name was not given by the set.
pub fn machine_number(set: &str, machine: &str) -> Option<i64> {
    let suffix = machine.strip_prefix(set)?.strip_prefix('-')?;
    // As [`machine_name`] writes it, and in no other way.
    let digits = suffix.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase());
    let padded = suffix.starts_with('0') && suffix.len() > 1;
    if !digits || padded || suffix.len() > DIGITS {
        return None;
    }
    i64::from_str_radix(suffix, 36).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_go_both_ways() {
        for number in [0, 1, 9, 10, 35, 36, 1_000, 99_999, NUMBERS - 1] {
            let name = machine_name("web", number);
            assert!(name.len() <= "web-".len() + 5, "{name}");
            assert_eq!(machine_number("web", &name), Some(number), "{name}");
        }
        assert_eq!(machine_name("web", NUMBERS), "web-0");
    }

    #[test]
    fn other_names_have_no_number() {
        for name in ["web", "web-", "web-00", "web-+1", "web-A", "web-100000", "other-1", "web-a-1"] {
            assert_eq!(machine_number("web", name), None, "{name}");
        }
    }

    #[test]
    fn the_longest_names_fit() {
        let set = set_name(&"d".repeat(46), &crate::hash::text(&1));
        assert_eq!(set.len(), 57);
        assert_eq!(machine_name(&set, NUMBERS - 1).len(), 63);
    }
}
