//! Laws of field management, for random objects of a type with every kind of map and list, and for any JSON at all.

use capt_apiserver::{
    managed_fields::{
        FieldSet, FieldsError, Kind, ResetFields, Timestamp, TypeInfo, Write, apply, compare, extract,
        keep_times, merge, remove_items, to_field_set, update,
    },
    patch::{json_patch, merge_patch, strategic_merge_patch},
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const VERSION: &str = "x.y/v1";
static NO_RESET: ResetFields = ResetFields::NONE;

fn schema() -> Value {
    let texts = || json!({"type": "object", "additionalProperties": {"type": "string"}});
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "text": {"type": "string"},
        "entries": texts(),
        "fixed": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
        "list": {"type": "array", "items": {"type": "string"}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "items": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "properties": {
                "name": {"type": "string"}, "value": {"type": "string"}, "entries": texts(),
            }},
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }}}})
}

fn types() -> TypeInfo {
    TypeInfo::from_crd_schema(&schema()).expect("the schema is valid")
}

fn kind() -> Kind {
    Kind::new("Thing").with_version(VERSION, types())
}

fn text() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c"]).prop_map(ToOwned::to_owned)
}

fn entries() -> impl Strategy<Value = Value> {
    // Not empty: an empty map is a leaf, which is gone once somebody gives it members.
    prop::collection::btree_map(text(), text(), 1..3).prop_map(|entries| json!(entries))
}

fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<f32>().prop_filter_map("finite", |float| float.is_finite().then(|| json!(float))),
        "[a-c<&\"\\\\é]{0,3}".prop_map(Value::from),
    ];
    let name = prop_oneof![
        text(),
        prop::sample::select(vec![
            "metadata",
            "spec",
            "set",
            "items",
            "name",
            "free",
            "managedFields",
            "fieldsV1",
            "f:a",
            "$patch",
            "$retainKeys",
            "$setElementOrder/set",
            "op",
            "path",
            "value",
            "v:\"a\"",
            "k:{}",
            ".",
        ])
        .prop_map(ToOwned::to_owned),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

prop_compose! {
    fn item()(name in text(), value in prop::option::of(text()), entries in prop::option::of(entries())) -> Value {
        let mut out = json!({"name": name});
        if let Some(value) = value {
            out["value"] = json!(value);
        }
        if let Some(entries) = entries {
            out["entries"] = entries;
        }
        out
    }
}

fn unique(items: Vec<Value>, key: impl Fn(&Value) -> Value) -> Value {
    let mut out: Vec<Value> = Vec::new();
    for item in items {
        if out.iter().all(|other| key(other) != key(&item)) {
            out.push(item);
        }
    }
    Value::Array(out)
}

prop_compose! {
    fn spec()(
        text in prop::option::of(text()),
        entries in prop::option::of(entries()),
        fixed in prop::option::of(entries_of_any()),
        list in prop::option::of(prop::collection::vec(text(), 0..3)),
        set in prop::option::of(prop::collection::vec(text().prop_map(Value::from), 1..4)),
        items in prop::option::of(prop::collection::vec(item(), 1..4)),
        free in prop::option::of(entries()),
    ) -> Map<String, Value> {
        let mut out = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                out.insert(name.to_owned(), value);
            }
        };
        put("text", text.map(Value::from));
        put("entries", entries);
        put("fixed", fixed);
        put("list", list.map(|list| json!(list)));
        put("set", set.map(|items| unique(items, Clone::clone)));
        put("items", items.map(|items| unique(items, |item| item["name"].clone())));
        put("free", free);
        out
    }
}

fn entries_of_any() -> impl Strategy<Value = Value> {
    prop::collection::btree_map(text(), text(), 0..3).prop_map(|entries| json!(entries))
}

fn object(spec: &Map<String, Value>) -> Value {
    let mut out = json!({"apiVersion": VERSION, "kind": "Thing", "metadata": {"name": "a"}});
    if !spec.is_empty() {
        out["spec"] = json!(spec);
    }
    out
}

fn write<'a>(kind: &'a Kind, manager: &'a str, second: i64) -> Write<'a> {
    Write {
        kind,
        api_version: VERSION,
        subresource: "",
        reset: &NO_RESET,
        manager,
        now: Timestamp::from_unix(second),
    }
}

fn applied(
    kind: &Kind,
    live: Option<&Value>,
    by: &str,
    second: i64,
    what: &Value,
    force: bool,
) -> Result<Value, FieldsError> {
    let mut new = apply(&write(kind, by, second), live, what, force)?;
    if let Some(live) = live {
        keep_times(live, &mut new);
    }
    Ok(new)
}

/// Lists with keys as if they had no order, and managers without times.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => {
            let mut items: Vec<_> = items.iter().map(sorted).collect();
            items.sort_by_key(ToString::to_string);
            Value::Array(items)
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().filter(|(name, _)| *name != "time").collect();
            members.sort_by_key(|(name, _)| *name);
            Value::Object(members.into_iter().map(|(name, member)| (name.clone(), sorted(member))).collect())
        }
        other => other.clone(),
    }
}

/// The members of `spec` that are chosen.
fn part(spec: &Map<String, Value>, chosen: impl Fn(usize) -> bool) -> Map<String, Value> {
    let all = spec.iter().enumerate();
    all.filter(|(index, _)| chosen(*index)).map(|(_, (name, value))| (name.clone(), value.clone())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn apply_is_idempotent(first in spec(), second in spec()) {
        let kind = kind();
        let live = applied(&kind, None, "a", 1, &object(&first), false).unwrap();
        let once = applied(&kind, Some(&live), "b", 2, &object(&second), true).unwrap();
        let twice = applied(&kind, Some(&once), "b", 3, &object(&second), false).unwrap();
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn disjoint_managers_commute(whole in spec(), mask in any::<u8>()) {
        let kind = kind();
        let left = object(&part(&whole, |index| mask & (1 << index) != 0));
        let right = object(&part(&whole, |index| mask & (1 << index) == 0));
        let run = |first: (&str, &Value), second: (&str, &Value)| {
            let live = applied(&kind, None, first.0, 1, first.1, false).unwrap();
            applied(&kind, Some(&live), second.0, 2, second.1, false).unwrap()
        };
        let one = run(("a", &left), ("b", &right));
        let other = run(("b", &right), ("a", &left));
        prop_assert_eq!(sorted(&one), sorted(&other));
    }

    #[test]
    fn what_is_given_up_is_as_if_never_applied(first in spec(), second in spec()) {
        let kind = kind();
        let before = applied(&kind, None, "a", 1, &object(&first), false).unwrap();
        // Only what the other does not change comes back; that is what no force means.
        if let Ok(both) = applied(&kind, Some(&before), "b", 2, &object(&second), false) {
            let after = applied(&kind, Some(&both), "b", 3, &object(&Map::new()), false).unwrap();
            prop_assert_eq!(sorted(&before), sorted(&after));
        }
    }

    #[test]
    fn a_merge_contains_what_is_applied(live in spec(), wanted in spec()) {
        let (types, live, wanted) = (types(), object(&live), object(&wanted));
        let merged = merge(&live, &wanted, &types);
        let fields = to_field_set(&wanted, &types);
        prop_assert!(fields.is_subset(&to_field_set(&merged, &types)));
        // What changed is only what is applied.
        let changes = compare(&live, &merged, &types);
        prop_assert!(changes.removed.is_empty());
        prop_assert!(changes.modified.is_subset(&fields));
        prop_assert_eq!(sorted(&extract(&merged, &fields, &types)["spec"]), sorted(&wanted["spec"]));
        prop_assert_eq!(&merge(&merged, &wanted, &types), &merged);
    }

    #[test]
    fn comparison_is_consistent(old in spec(), new in spec()) {
        let (types, old, new) = (types(), object(&old), object(&new));
        prop_assert!(compare(&old, &old, &types).is_same());
        let (there, back) = (compare(&old, &new, &types), compare(&new, &old, &types));
        prop_assert_eq!(&there.added, &back.removed);
        prop_assert_eq!(&there.removed, &back.added);
        prop_assert_eq!(&there.modified, &back.modified);
        let removed = remove_items(&old, &there.removed, &types);
        prop_assert!(there.removed.is_disjoint(&to_field_set(&removed, &types)));
    }

    #[test]
    fn fields_round_trip(left in spec(), right in spec()) {
        let types = types();
        let (left, right) = (to_field_set(&object(&left), &types), to_field_set(&object(&right), &types));
        prop_assert_eq!(&FieldSet::decode(&left.encode()).unwrap(), &left);
        let both = left.clone().union(right.clone());
        prop_assert!(left.is_subset(&both) && right.is_subset(&both));
        prop_assert_eq!(both.difference(&right).union(left.intersection(&right)), left.clone());
        prop_assert_eq!(left.intersection(&right), right.intersection(&left));
        prop_assert_eq!(left.is_disjoint(&right), left.intersection(&right).is_empty());
        prop_assert_eq!(both.len(), both.paths().len());
        prop_assert!(both.paths().iter().all(|path| left.contains(path) || right.contains(path)));
    }

    #[test]
    fn no_json_is_too_strange(live in anything(), new in anything(), third in anything()) {
        let kind = kind();
        for types in [types(), TypeInfo::deduced()] {
            let _ = to_field_set(&live, &types);
            let _ = compare(&live, &new, &types);
            let _ = merge(&live, &new, &types);
            if let Ok(set) = FieldSet::decode(&third) {
                prop_assert_eq!(&FieldSet::decode(&set.encode()).unwrap(), &set);
                let _ = remove_items(&live, &set, &types);
                let _ = extract(&live, &set, &types);
            }
            let _ = strategic_merge_patch(&mut live.clone(), &mut new.clone(), &types);
        }
        let _ = TypeInfo::from_crd_schema(&live);
        let _ = json_patch(&mut live.clone(), new.clone());
        let _ = merge_patch(&mut live.clone(), new.clone());
        let wrapped = |spec: &Value, managed: &Value| json!({
            "apiVersion": VERSION, "kind": "Thing",
            "metadata": {"name": "a", "managedFields": managed}, "spec": {"free": spec, "any": spec},
        });
        let (live, mut new) = (wrapped(&live, &third), wrapped(&new, &json!(null)));
        let _ = apply(&write(&kind, "a", 1), Some(&live), &new, true);
        let _ = update(&write(&kind, "a", 1), Some(&live), &mut new);
    }

    #[test]
    fn a_merge_patch_is_idempotent(object in anything(), patch in anything()) {
        // Nulls in a list that replaces an object stay the first time, as they do in the API server.
        prop_assume!(!patch.to_string().contains('['));
        let mut once = json!({"spec": object});
        let patch = json!({"spec": patch});
        merge_patch(&mut once, patch.clone()).unwrap();
        let mut twice = once.clone();
        merge_patch(&mut twice, patch).unwrap();
        prop_assert_eq!(once, twice);
    }
}
