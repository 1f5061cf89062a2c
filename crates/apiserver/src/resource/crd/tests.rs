use serde_json::{Value, json};

use super::*;
use crate::bounds::MAX_DEPTH;

fn definition(plural: &str, names: &Value) -> Value {
    let mut crd = json!({
        "metadata": {"name": format!("{plural}.clash.example.com")},
        "spec": {
            "group": "clash.example.com", "scope": "Cluster", "names": names,
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    apply_defaults(&mut crd);
    prepare_create(&mut crd);
    crd
}

fn condition<'a>(crd: &'a Value, kind: &str) -> Vec<&'a str> {
    let conditions = list(crd, &["status", "conditions"]);
    let found = conditions.iter().find(|condition| text(condition, &["type"]) == kind).unwrap();
    ["status", "reason", "message", "lastTransitionTime"].map(|name| text(found, &[name])).to_vec()
}

/// Changes the names, and lets them be decided at `now`.
fn renamed(crd: &mut Value, names: &Value, others: &[&Value], now: &str) {
    let old = crd.clone();
    crd["spec"]["names"] = names.clone();
    apply_defaults(crd);
    prepare_update(crd, &old);
    if let Some(status) = accept(crd, &Names::of(others.iter().copied()), None, now) {
        crd["status"] = status;
    }
}

#[test]
fn names_go_to_who_comes_first() {
    let mut one = definition("ones", &json!({"plural": "ones", "kind": "One", "shortNames": ["o", "oo"]}));
    one["status"] = accept(&one, &Names::of([]), None, "t0").unwrap();
    assert_eq!(condition(&one, "NamesAccepted"), ["True", "NoConflicts", "no conflicts found", "t0"]);
    assert_eq!(
        condition(&one, "Established"),
        ["True", "InitialNamesAccepted", "the initial names have been accepted", "t0"]
    );
    assert_eq!(accept(&one, &Names::of([]), None, "t1"), None, "nothing changes twice");

    let names = json!({"plural": "twos", "singular": "one", "kind": "Two", "listKind": "OneList", "shortNames": ["o", "oo", "t"]});
    let mut two = definition("twos", &names);
    two["status"] = accept(&two, &Names::of([&one]), None, "t1").unwrap();
    assert_eq!(two["status"]["acceptedNames"], json!({"plural": "twos", "kind": "Two"}));
    assert_eq!(
        condition(&two, "NamesAccepted"),
        ["False", "ListKindConflict", "\"OneList\" is already in use", "t1"]
    );
    assert_eq!(condition(&two, "Established"), ["False", "NotAccepted", "not all names are accepted", "t1"]);
    assert!(!is_established(&two));

    let names = json!({"plural": "twos", "kind": "Two", "shortNames": ["t", "oo"], "categories": ["all"]});
    renamed(&mut two, &names, &[&one], "t2");
    assert_eq!(
        two["status"]["acceptedNames"],
        json!({"plural": "twos", "kind": "Two", "singular": "two", "listKind": "TwoList", "categories": ["all"]})
    );
    assert_eq!(
        condition(&two, "NamesAccepted"),
        ["False", "ShortNamesConflict", "\"oo\" is already in use", "t1"]
    );

    renamed(&mut two, &json!({"plural": "twos", "kind": "Two", "shortNames": ["t"]}), &[&one], "t3");
    assert_eq!(condition(&two, "NamesAccepted")[3], "t3");
    assert!(is_established(&two));

    renamed(&mut two, &json!({"plural": "twos", "kind": "Two", "shortNames": ["t", "o"]}), &[&one], "t4");
    assert_eq!(condition(&two, "NamesAccepted")[..2], ["False", "ShortNamesConflict"]);
    assert!(is_established(&two), "objects exist; it stays");
    assert_eq!(resource(&two).unwrap().short_names, ["t"]);

    two["status"] = accept(&two, &Names::of([]), None, "t5").unwrap();
    assert_eq!(resource(&two).unwrap().short_names, ["t", "o"]);
}

#[test]
fn a_definition_becomes_a_resource() {
    let mut crd = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [
                {"name": "v1beta1", "served": true, "storage": false, "deprecated": true},
                {"name": "v1alpha1", "served": true, "storage": false, "deprecated": true, "deprecationWarning": "old"},
                {"name": "v1beta2", "served": true, "storage": true,
                 "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}},
                 "selectableFields": [{"jsonPath": ".spec.color"}],
                 "additionalPrinterColumns": [{"name": "N", "type": "integer", "jsonPath": ".spec.n", "priority": 1}],
                 "schema": {"openAPIV3Schema": {"type": "object"}}},
                {"name": "v1", "served": false, "storage": false},
            ],
        },
    });
    apply_defaults(&mut crd);
    let resource = resource(&crd).unwrap();
    assert_eq!((resource.singular.as_str(), resource.list_kind.as_str()), ("widget", "WidgetList"));
    assert_eq!(resource.storage_version, "v1beta2");
    let names: Vec<&str> = resource.versions.iter().map(|version| version.name.as_str()).collect();
    assert_eq!(names, ["v1beta2", "v1beta1", "v1alpha1"]);
    let [stored, beta, alpha] = &resource.versions[..] else { panic!("three are served") };
    assert!(stored.status && !beta.status);
    assert_eq!(stored.scale.as_ref().unwrap().label_selector, None);
    assert_eq!(stored.selectable_fields, ["spec.color"]);
    assert_eq!((stored.columns[0].name.as_str(), stored.columns[0].priority), ("N", 1));
    assert_eq!(beta.columns[0].name, "Age");
    let warning = "example.com/v1beta1 Widget is deprecated; use example.com/v1beta2 Widget";
    assert_eq!(beta.deprecation.as_deref(), Some(warning));
    assert_eq!(alpha.deprecation.as_deref(), Some("old"));
}

#[test]
fn the_paths_of_a_scale_are_as_deep_as_objects() {
    let with_steps = |steps: usize| {
        let mut crd = definition("ones", &json!({"plural": "ones", "kind": "One"}));
        let path = format!(".spec{}", ".a".repeat(steps - 1));
        crd["spec"]["versions"][0]["subresources"] =
            json!({"scale": {"specReplicasPath": path, "statusReplicasPath": ".status.n"}});
        crd
    };
    let told = |crd: &Value| validate_create(crd).iter().map(ToString::to_string).collect::<Vec<_>>();
    let deepest = with_steps(MAX_DEPTH);
    assert_eq!(told(&deepest), Vec::<String>::new());
    assert!(resource(&deepest).unwrap().versions[0].scale.is_some());

    let too_deep = with_steps(MAX_DEPTH + 1);
    let told = told(&too_deep);
    assert!(matches!(&told[..], [only] if only.ends_with("must have at most 116 steps")), "{told:?}");
    // One that is stored already has no scale.
    assert_eq!(resource(&too_deep).unwrap().versions[0].scale, None);
}

#[test]
fn definitions_have_so_many_versions_and_columns() {
    let told = |versions: usize, columns: usize| {
        let mut crd = definition("ones", &json!({"plural": "ones", "kind": "One"}));
        let column = json!({"name": "C", "type": "string", "jsonPath": ".spec.c"});
        let mut version = crd["spec"]["versions"][0].clone();
        version["additionalPrinterColumns"] = vec![column; columns].into();
        let versions = (1..=versions).map(|n| {
            let mut version = version.clone();
            version["name"] = format!("v{n}").into();
            version["storage"] = (n == 1).into();
            version
        });
        crd["spec"]["versions"] = versions.collect();
        validate_create(&crd).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(told(10, 400), Vec::<String>::new());
    assert_eq!(told(100, 1), Vec::<String>::new());
    assert_eq!(told(101, 1), ["spec.versions: Too many: 101: must have at most 100 items"]);
    assert_eq!(told(1, 401), ["spec.additionalPrinterColumns: Too many: 401: must have at most 400 items"]);
}

#[test]
fn every_version_that_was_stored_is_remembered() {
    let mut old = definition("ones", &json!({"plural": "ones", "kind": "One"}));
    old["status"] = accept(&old, &Names::of([]), None, "t").unwrap();
    let mut new = old.clone();
    new["spec"]["versions"][0]["storage"] = false.into();
    let mut second = new["spec"]["versions"][0].clone();
    second["name"] = "v2".into();
    second["storage"] = true.into();
    new["spec"]["versions"].as_array_mut().unwrap().push(second);
    prepare_update(&mut new, &old);
    assert_eq!(new["status"]["storedVersions"], json!(["v1", "v2"]));
    assert_eq!(validate_update(&new, &old), []);

    new["spec"]["versions"].as_array_mut().unwrap().remove(0);
    let errors = validate_update(&new, &old);
    assert!(
        errors[0]
            .to_string()
            .starts_with("status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions")
    );
}

#[test]
fn names_that_are_given_up_are_free() {
    let mut one = definition("ones", &json!({"plural": "ones", "kind": "One", "shortNames": ["o"]}));
    one["status"] = accept(&one, &Names::default(), None, "t0").unwrap();
    let mut names = Names::of([&one, &one]);
    let two = definition("twos", &json!({"plural": "twos", "kind": "Two", "shortNames": ["o"]}));
    let accepted =
        |names: &Names| accept(&two, names, None, "t1").unwrap()["acceptedNames"].get("shortNames").is_some();
    assert!(!accepted(&names));
    names.take(&one);
    assert!(!accepted(&names), "it has another use");
    names.take(&one);
    assert!(accepted(&names));
}
