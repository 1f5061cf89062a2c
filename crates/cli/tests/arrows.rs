//! The crates know only whom they may know. A new crate needs a row here, on purpose.

use std::process::Command;

use serde_json::Value;

/// Crate, the crates of CAPT it may depend on, and what it must never depend on.
const ARROWS: [(&str, &[&str], &[&str]); 9] = [
    ("capt-api", &[], &["tokio", "reqwest", "rusqlite"]),
    // Decisions on data: no IO, and neither a clock nor randomness of its own.
    ("capt-planner", &["capt-api"], &["tokio", "reqwest", "rusqlite", "rand", "uuid", "futures", "hyper"]),
    ("capt-schema", &[], &["kube", "k8s-openapi", "tokio"]),
    ("capt-yaml", &[], &["kube", "k8s-openapi", "tokio"]),
    ("capt-terraform", &[], &["kube", "k8s-openapi"]),
    ("capt-apiserver", &["capt-schema", "capt-yaml"], &[]),
    ("capt-controllers", &["capt-api", "capt-planner", "capt-terraform"], &["rusqlite"]),
    (
        "capt",
        &[
            "capt-api",
            "capt-apiserver",
            "capt-controllers",
            "capt-planner",
            "capt-schema",
            "capt-terraform",
            "capt-yaml",
        ],
        &[],
    ),
    // Tests alone use it: it may be a dev-dependency of any crate and a dependency of none.
    ("capt-e2e", &[], &[]),
];

#[test]
fn crates_know_only_whom_they_may_know() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs, or this test would not");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    for package in packages {
        let name = package["name"].as_str().expect("a name");
        let (_, allowed, forbidden) = ARROWS
            .iter()
            .find(|(known, ..)| *known == name)
            .unwrap_or_else(|| panic!("{name} has no row in ARROWS"));
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let on = dependency["name"].as_str().expect("a name");
            if dependency["kind"] == "dev" {
                continue;
            }
            let ours = ARROWS.iter().any(|(known, ..)| *known == on);
            assert!(!ours || allowed.contains(&on), "{name} must not depend on {on}");
            assert!(!forbidden.contains(&on), "{name} must not depend on {on}");
            let features: Vec<&str> =
                dependency["features"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            assert!(
                !["capt-api", "capt-planner"].contains(&name)
                    || on != "kube"
                    || !features.contains(&"client"),
                "{name} does no IO: kube without its client"
            );
        }
    }
    assert_eq!(packages.len(), ARROWS.len(), "a crate is gone: take its row out of ARROWS");
}
