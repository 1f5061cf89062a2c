//! Whether two answers say the same: everything counts but what only one server can know.

use serde_json::{Map, Value};

use crate::pairs::{Pairs, Which, is_uid};
use crate::side::Answer;

/// Where and how two answers differ.
pub type Difference = String;

pub fn answers(pairs: &mut Pairs, real: &Answer, ours: &Answer) -> Result<(), Difference> {
    if real.code != ours.code {
        return Err(format!("code: real {}, ours {}", real.code, ours.code));
    }
    if real.content_type != ours.content_type {
        return Err(format!("content type: real {:?}, ours {:?}", real.content_type, ours.content_type));
    }
    if real.cache != ours.cache {
        return Err(format!("cache-control: real {:?}, ours {:?}", real.cache, ours.cache));
    }
    // What is there twice is told by one reader in the order of the body, and by another first.
    let in_order = |warnings: &[String]| {
        let mut warnings = warnings.to_vec();
        if warnings.iter().any(|warning| warning.contains("duplicate field")) {
            warnings.sort();
        }
        warnings
    };
    if in_order(&real.warnings) != in_order(&ours.warnings) {
        return Err(format!("warnings: real {:?}, ours {:?}", real.warnings, ours.warnings));
    }
    values(pairs, &real.value(), &ours.value())
}

pub fn values(pairs: &mut Pairs, real: &Value, ours: &Value) -> Result<(), Difference> {
    learn(pairs, real, ours);
    walk(pairs, real, ours, "")
}

/// Generated names first: other members mention them.
fn learn(pairs: &mut Pairs, real: &Value, ours: &Value) {
    if let (Some(_), Some(_), Some(real), Some(ours)) = (
        real["metadata"]["generateName"].as_str(),
        ours["metadata"]["generateName"].as_str(),
        real["metadata"]["name"].as_str(),
        ours["metadata"]["name"].as_str(),
    ) && real != ours
    {
        pairs.names.agree(real, ours);
    }
    if let (Some(real), Some(ours)) =
        (real["metadata"]["continue"].as_str(), ours["metadata"]["continue"].as_str())
    {
        pairs.tokens.add(real, ours);
    }
}

fn walk(pairs: &mut Pairs, real: &Value, ours: &Value, at: &str) -> Result<(), Difference> {
    match (real, ours) {
        (Value::Object(a), Value::Object(b)) => objects(pairs, a, b, at),
        (Value::Array(a), Value::Array(b)) => {
            let sorted = (at.ends_with(".managedFields")).then(|| (by_manager(a), by_manager(b)));
            let (a, b) = sorted.as_ref().map_or((a, b), |(a, b)| (a, b));
            if at.ends_with(".causes") {
                return causes(pairs, a, b, at);
            }
            if a.len() != b.len() {
                return Err(format!("{at}: {} items in real, {} in ours", a.len(), b.len()));
            }
            (0..a.len()).try_for_each(|index| walk(pairs, &a[index], &b[index], &format!("{at}[{index}]")))
        }
        (Value::String(a), Value::String(b)) => texts(pairs, a, b, at),
        // When to come back is drawn at random, but not for reads from a cache.
        (Value::Number(_), Value::Number(_)) if at == ".object.details.retryAfterSeconds" => Ok(()),
        // Numbers have more than one spelling.
        (Value::Number(a), Value::Number(b)) if a.as_f64() == b.as_f64() => Ok(()),
        _ if real == ours => Ok(()),
        _ => Err(format!("{at}: real {real}, ours {ours}")),
    }
}

fn objects(
    pairs: &mut Pairs,
    real: &Map<String, Value>,
    ours: &Map<String, Value>,
    at: &str,
) -> Result<(), Difference> {
    if at.ends_with(".fieldsV1") || at.contains(".fieldsV1.") {
        // Keys of list items say uids and generated names.
        let shown = |which: Which, members: &Map<String, Value>| {
            let mut members = Value::from(members.clone());
            forget_the_clock(&mut members);
            members.sort_all_objects();
            pairs.neutral(which, &members.to_string())
        };
        let (real, ours) = (shown(Which::Real, real), shown(Which::Ours, ours));
        return if real == ours { Ok(()) } else { Err(format!("{at}:\n  real {real}\n  ours {ours}")) };
    }
    let goes = real.contains_key("deletionTimestamp") && !real.contains_key("finalizers");
    let left_out = |name: &str| {
        goes && ["ownerReferences", "labels", "annotations"].contains(&name) && real[name].is_null()
    };
    if let Some(name) = real.keys().find(|name| !ours.contains_key(*name) && !left_out(name)) {
        return Err(format!("{at}.{name}: only in real: {}", real[name]));
    }
    if let Some(name) = ours.keys().find(|name| !real.contains_key(*name)) {
        return Err(format!("{at}.{name}: only in ours: {}", ours[name]));
    }
    let is_list = real.contains_key("continue") || (at == ".metadata" && !real.contains_key("name"));
    for (name, value) in real {
        let at = format!("{at}.{name}");
        // Words of our own in the place of words of theirs.
        let is_about = name == "description" && at.contains(".columnDefinitions");
        let is_token = name == "continue" || (is_list && name == "resourceVersion");
        if is_about || is_token || left_out(name) {
            continue;
        }
        if name == "finalizers" && is_ending_namespace(real) {
            walk(pairs, &sorted(value), &sorted(&ours[name]), &at)?;
        } else {
            walk(pairs, value, &ours[name], &at)?;
        }
    }
    Ok(())
}

/// Upstream passes the finalizers of a Namespace through a map of Go when it is deleted, so their order is chance.
fn is_ending_namespace(metadata: &Map<String, Value>) -> bool {
    let labels = metadata.get("labels");
    metadata.contains_key("deletionTimestamp")
        && labels.is_some_and(|labels| labels["kubernetes.io/metadata.name"].is_string())
}

fn sorted(list: &Value) -> Value {
    let Value::Array(items) = list else { return list.clone() };
    let mut items = items.clone();
    items.sort_by_key(Value::to_string);
    items.into()
}

/// That a definition goes is written twice, by two managers. Whether the second one changed the time of it too, and so owns it,
/// depends on whether a second has passed between the two.
fn forget_the_clock(fields: &mut Value) {
    let Value::Object(members) = fields else { return };
    for (name, member) in members.iter_mut() {
        if name == r#"k:{"type":"Terminating"}"# {
            member.as_object_mut().map(|condition| condition.shift_remove("f:lastTransitionTime"));
        } else {
            forget_the_clock(member);
        }
    }
}

/// Managers are sorted by the second they wrote in, which need not be the same one.
fn by_manager(entries: &[Value]) -> Vec<Value> {
    let mut entries = entries.to_vec();
    entries.sort_by_key(|entry| {
        let part = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        (part("operation"), part("manager"), part("subresource"), part("apiVersion"))
    });
    entries
}

/// Go visits maps in any order, and so do the causes it finds.
fn causes(pairs: &Pairs, real: &[Value], ours: &[Value], at: &str) -> Result<(), Difference> {
    let sorted = |which: Which, causes: &[Value]| {
        let mut causes: Vec<String> =
            causes.iter().map(|cause| pairs.neutral(which, &shown_cause(cause))).collect();
        causes.sort();
        // Upstream judges metadata more than once in some kinds.
        causes.dedup();
        causes
    };
    let (real, ours) = (sorted(Which::Real, real), sorted(Which::Ours, ours));
    if real == ours { Ok(()) } else { Err(format!("{at}:\n  real {real:#?}\n  ours {ours:#?}")) }
}

fn shown_cause(cause: &Value) -> String {
    let part = |name: &str| cause[name].as_str().unwrap_or_default().to_owned();
    // With the field, as a message has it.
    let said = without_echo(&format!("{}: {}", part("field"), part("message")));
    format!("{} {said}", part("reason"))
}

/// A patch that cannot be decoded is shown whole, in the order in which Go has its members.
fn without_echo(message: &str) -> String {
    let (open, close) = ("Invalid value: \"{", "}\": ");
    if let (Some((before, _)), Some(_)) = (message.split_once(open), message.rsplit_once(close)) {
        // Of several values that do not fit one is told.
        return format!("{before}...");
    }
    without_expected(&without_structs(message))
}

/// Versions and schemas of a definition are shown as Go has them in memory.
fn without_structs(message: &str) -> String {
    let schema = ("Schema: Invalid value: {\"", "}: ");
    for (open, close) in [("Invalid value: [{\"", "}]: "), schema] {
        if let (Some((before, _)), Some((_, after))) = (message.split_once(open), message.rsplit_once(close))
        {
            return format!("{before}...{after}");
        }
    }
    message.to_owned()
}

/// A parser that is generated tells what it expected in the place of a syntax error.
fn without_expected(message: &str) -> String {
    let (open, close) = (" expecting {", "IDENTIFIER}");
    match message.split_once(open) {
        Some((before, rest)) => {
            let rest = rest.split_once(close).map_or("", |(_, rest)| rest);
            format!("{before}{}", without_expected(rest))
        }
        None => message.to_owned(),
    }
}

/// What the two servers need not say in the same words.
fn in_own_words(message: &str) -> String {
    for lists in
        ["media types are accepted: ", "Available representations: ", "accepted media types include: "]
    {
        if let Some((before, _)) = message.split_once(lists) {
            return format!("{before}{lists}...");
        }
    }
    match message.split_once("yaml: ") {
        Some((before, _)) => format!("{before}yaml: ..."),
        None => without_echo(message),
    }
}

/// What an apply says whose result does not fit the version that its manager applied before.
const PRUNED: &str = "failed to prune fields: failed to convert merged object to last applied version: ";

fn texts(pairs: &mut Pairs, real: &str, ours: &str, at: &str) -> Result<(), Difference> {
    let differ = || Err(format!("{at}: real {real:?}, ours {ours:?}"));
    if at.ends_with(".uid") && is_uid(real) && is_uid(ours) {
        return if pairs.uids.agree(real, ours) { Ok(()) } else { differ() };
    }
    if at.ends_with(".metadata.resourceVersion") {
        return if pairs.revisions.agree(real, ours) { Ok(()) } else { differ() };
    }
    if (is_recent(real) && is_recent(ours)) || (at.contains(".cells[") && is_age(real) && is_age(ours)) {
        return Ok(());
    }
    let said = |text: &str| if at.ends_with(".message") { in_own_words(text) } else { text.to_owned() };
    let (a, b) = (pairs.neutral(Which::Real, &said(real)), pairs.neutral(Which::Ours, &said(ours)));
    // Several errors of one message come in any order.
    let sorted = |text: &str| {
        let text = text.replace([',', '[', ']', '\n'], " ");
        let mut words: Vec<String> = text.split_whitespace().map(ToOwned::to_owned).collect();
        words.sort();
        words
    };
    // Of what does not fit its type, upstream stops at the first field of a map that it does not know.
    let stopped = || {
        let last = |line: &str| line.trim_start().rsplit("): ").next().unwrap_or_default().to_owned();
        let typed = a.starts_with("failed to create typed patch object")
            && a.lines().all(|line| b.contains(&last(line)));
        // Which one of a map it meets first is chance.
        let pruned = a.strip_prefix(PRUNED).zip(b.strip_prefix(PRUNED));
        let fields = |(real, ours): (&str, &str)| {
            real.trim_start_matches("errors:").lines().all(|line| ours.contains(line.trim()))
        };
        typed || pruned.is_some_and(fields)
    };
    if a == b || (at == ".message" && (sorted(&a) == sorted(&b) || stopped())) { Ok(()) } else { differ() }
}

/// A time of this run.
fn is_recent(text: &str) -> bool {
    let Ok(time) = text.parse::<jiff::Timestamp>() else { return false };
    time.duration_until(jiff::Timestamp::now()).as_secs().abs() < 3600
}

fn is_age(text: &str) -> bool {
    let mut rest = text;
    while let Some(unit) = rest.find(|c: char| !c.is_ascii_digit()) {
        if unit == 0 || !rest[unit..].starts_with(['s', 'm', 'h', 'd', 'y']) {
            return false;
        }
        rest = &rest[unit + 1..];
    }
    rest.is_empty() && !text.is_empty()
}
