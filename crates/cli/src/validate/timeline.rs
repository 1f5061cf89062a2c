//! Checks the timeline of a simulation. It is no object of an API and has no schema: what it takes, its type says.

use capt_planner::simulate::Simulation;
use capt_schema::{FieldPath, Segment, UnknownField};
use capt_yaml::{Node, NodeValue};

use super::object::{Places, segments, unknown_field};
use super::report::Finding;

/// The kind of a timeline.
pub const KIND: &str = "RolloutSimulation";

/// Finds the first mistake of a timeline: its type tells one at a time.
pub fn check(file: &str, object: &Node) -> Option<Finding> {
    let error = serde_path_to_error::deserialize::<_, Simulation>(object.to_json()).err()?;
    let mut path: Vec<Segment> = segments(error.path()).collect();
    let words = error.into_inner().to_string();
    let mut places = Places::of(object);
    if let Some((name, known)) = unknown(&words) {
        let at_field = matches!(path.last(), Some(Segment::Field(last)) if last == name);
        // What happens is read as a whole: the path ends at the event.
        let below = places.find(&path.iter().cloned().collect()).and_then(|node| path_to(node, name));
        if at_field || below.is_some() {
            path.extend(below.filter(|_| !at_field).unwrap_or_default());
            let path: FieldPath = path.into_iter().collect();
            return Some(unknown_field(file, &mut places, &UnknownField { path, known: known.into() }));
        }
    }
    let path: FieldPath = path.into_iter().collect();
    let told = (!path.is_root()).then(|| path.to_string());
    Some(Finding { path: told, ..Finding::new(file, Some(places.locate(&path)), words) })
}

/// The name in serde's words for an unknown field or variant, and the known ones: each stands in backquotes.
fn unknown(words: &str) -> Option<(&str, Vec<String>)> {
    if !words.starts_with("unknown ") {
        return None;
    }
    let mut names = words.split('`').skip(1).step_by(2);
    Some((names.next()?, names.map(str::to_owned).collect()))
}

/// The way to the first member of this name.
fn path_to(node: &Node, name: &str) -> Option<Vec<Segment>> {
    let within = |segment: Segment, node: &Node| {
        let mut path = vec![segment];
        path.extend(path_to(node, name)?);
        Some(path)
    };
    match &node.value {
        NodeValue::Map(members) => match members.iter().find(|member| member.key == name) {
            Some(member) => Some(vec![Segment::Field(member.key.clone())]),
            None => {
                members.iter().find_map(|member| within(Segment::Field(member.key.clone()), &member.value))
            }
        },
        NodeValue::List(items) => {
            items.iter().enumerate().find_map(|(index, item)| within(Segment::Index(index), item))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Option<String> {
        let document = capt_yaml::documents(text).next().unwrap().unwrap();
        let finding = check("t.yaml", &document.root)?;
        let Finding { place, path, message, help, .. } = finding;
        let parts = [Some(place.to_string()), path, Some(message), help];
        Some(parts.into_iter().flatten().collect::<Vec<_>>().join(" | "))
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        let rows = [
            ("kind: RolloutSimulation\nuntil: 7d\n", None),
            (
                "kind: RolloutSimulation\nuntill: 7d\n",
                Some("t.yaml:2:1 | untill | unknown field | did you mean until?"),
            ),
            (
                "machines:\n  readyAftr: 4m\n",
                Some("t.yaml:2:3 | machines.readyAftr | unknown field | did you mean readyAfter?"),
            ),
            (
                "rules:\n- for: {number: [1]}\n  behave: {}\n",
                Some("t.yaml:2:9 | rules[0].for.number | unknown field | did you mean numbers?"),
            ),
            (
                "events:\n- {at: 0, scale: 3}\n- at: 5\n  scael: 4\n",
                Some("t.yaml:4:3 | events[1].scael | unknown field | did you mean scale?"),
            ),
            (
                "events:\n- at: 5\n  fail: {nme: web-0}\n",
                Some("t.yaml:3:10 | events[0].fail.nme | unknown field | did you mean name?"),
            ),
            (
                "until: soon\n",
                Some("t.yaml:1:1 | until | \"soon\" is neither seconds nor a time such as 1m30s"),
            ),
            (
                "start: Stedy\n",
                Some("t.yaml:1:1 | start | unknown variant `Stedy`, expected `AsGiven` or `Steady`"),
            ),
        ];
        for (text, expected) in rows {
            assert_eq!(told(text).as_deref(), expected, "{text}");
        }
    }
}
