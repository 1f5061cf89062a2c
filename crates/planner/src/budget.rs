//! maxSurge and maxUnavailable as numbers.

use capt_api::machine::RollingUpdate;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::{Deserialize, Serialize};

/// Limits of a rollout: surge and unavailability, as numbers.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// Machines that may exist beyond the wanted ones.
    pub max_surge: i32,
    /// Wanted machines that may be unavailable.
    pub max_unavailable: i32,
}

impl Budget {
    /// Resolves a strategy for a number of replicas: a surge rounds up, unavailability down and is at most all; where both
    /// come to nothing one machine may be missing, or a rollout could not move.
    pub fn of(rolling: &RollingUpdate, replicas: i32) -> Self {
        let max_surge = resolve(&rolling.max_surge, replicas, Rounding::Up);
        let max_unavailable = resolve(&rolling.max_unavailable, replicas, Rounding::Down).min(replicas);
        if max_surge == 0 && max_unavailable == 0 {
            return Self { max_surge, max_unavailable: 1.min(replicas) };
        }
        Self { max_surge, max_unavailable }
    }
}

#[derive(Clone, Copy)]
enum Rounding {
    Up,
    Down,
}

/// A value that is no number of machines counts as none: the API refuses it, so this is never the whole answer.
fn resolve(value: &IntOrString, replicas: i32, rounding: Rounding) -> i32 {
    match value {
        IntOrString::Int(number) => (*number).max(0),
        IntOrString::String(text) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0).max(0);
            let hundredths = percent.saturating_mul(i64::from(replicas.max(0)));
            let whole = match rounding {
                Rounding::Up => hundredths.saturating_add(99) / 100,
                Rounding::Down => hundredths / 100,
            };
            i32::try_from(whole).unwrap_or(i32::MAX / 4)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(surge: &str, unavailable: &str, replicas: i32) -> (i32, i32) {
        let value =
            |text: &str| text.parse().map_or_else(|_| IntOrString::String(text.to_owned()), IntOrString::Int);
        let rolling = RollingUpdate { max_surge: value(surge), max_unavailable: value(unavailable) };
        let budget = Budget::of(&rolling, replicas);
        (budget.max_surge, budget.max_unavailable)
    }

    #[test]
    fn a_surge_rounds_up_and_unavailability_down() {
        assert_eq!(budget("25%", "25%", 10), (3, 2));
        assert_eq!(budget("1", "0", 3), (1, 0));
        assert_eq!(budget("100%", "100%", 3), (3, 3));
        assert_eq!(budget("1%", "1%", 1), (1, 0));
        assert_eq!(budget("1%", "99%", 100), (1, 99));
        assert_eq!(budget("200%", "0", 4), (8, 0));
    }

    #[test]
    fn nothing_and_nothing_is_one_unavailable() {
        assert_eq!(budget("0", "0", 3), (0, 1));
        assert_eq!(budget("0%", "10%", 9), (0, 1));
        assert_eq!(budget("0", "0", 0), (0, 0));
    }

    #[test]
    fn no_more_can_be_missing_than_there_are() {
        assert_eq!(budget("0", "7", 3), (0, 3));
    }

    #[test]
    fn nonsense_does_not_overflow() {
        assert_eq!(budget("99999999999999999999%", "0", 3), (0, 1));
        assert_eq!(budget("9999999999999%", "0", 100_000), (i32::MAX / 4, 0));
        assert_eq!(budget("-5", "-5", 3), (0, 1));
    }
}
