//! Parts of times and durations.

use jiff::Timestamp;

use crate::cel::value::{EvalError, Evaluated, Val};
use crate::go::time;

pub(super) fn of_timestamp<'a>(name: &str, moment: Timestamp, args: &[Val<'a>]) -> Evaluated<'a> {
    let zone = match args {
        [] => "UTC",
        [Val::String(zone)] => zone,
        _ => return Err(EvalError::overload(name)),
    };
    let local =
        time::in_zone(moment, zone).ok_or_else(|| EvalError::other(format!("unknown time zone {zone}")))?;
    Ok(Val::Int(match name {
        "getFullYear" => i64::from(local.year()),
        "getMonth" => i64::from(local.month()) - 1,
        "getDayOfYear" => i64::from(local.day_of_year()) - 1,
        "getDayOfMonth" => i64::from(local.day()) - 1,
        "getDate" => i64::from(local.day()),
        "getDayOfWeek" => i64::from(local.weekday().to_sunday_zero_offset()),
        "getHours" => i64::from(local.hour()),
        "getMinutes" => i64::from(local.minute()),
        "getSeconds" => i64::from(local.second()),
        "getMilliseconds" => i64::from(local.millisecond()),
        _ => return Err(EvalError::overload(name)),
    }))
}

/// The whole duration in a unit, except that milliseconds are those of it, too.
pub(super) fn of_duration<'a>(name: &str, nanos: i64, args: &[Val<'a>]) -> Evaluated<'a> {
    let unit = match (name, args) {
        ("getHours", []) => 3_600_000_000_000,
        ("getMinutes", []) => 60_000_000_000,
        ("getSeconds", []) => 1_000_000_000,
        ("getMilliseconds", []) => 1_000_000,
        _ => return Err(EvalError::overload(name)),
    };
    Ok(Val::Int(nanos / unit))
}
