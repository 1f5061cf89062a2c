//! The crates know only whom they may know, and so do the modules of the larger ones. A new crate needs a row here, on purpose.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
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

/// Crates of which the top modules know each other one way.
const LAYERED: [&str; 3] = ["apiserver", "terraform", "controllers"];

/// A cycle among the modules of a crate is a layer that reaches back up.
#[test]
fn modules_know_each_other_one_way() {
    for name in LAYERED {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
        let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for file in sources(&root) {
            let place = file.strip_prefix(&root).expect("below its crate");
            let module = place.iter().next().expect("a file has a name").to_string_lossy();
            let module = module.trim_end_matches(".rs").to_owned();
            let text = without_tests(&std::fs::read_to_string(&file).expect("a source is text"));
            arrows.entry(module.clone()).or_default().extend(used(&text).filter(|other| *other != module));
        }
        // Whoever knows nobody that is left is the lowest layer, and goes.
        while let Some(lowest) =
            arrows.iter().find(|(_, known)| known.is_empty()).map(|(name, _)| name.clone())
        {
            arrows.remove(&lowest);
            for known in arrows.values_mut() {
                known.remove(&lowest);
            }
        }
        assert!(arrows.is_empty(), "modules of crates/{name} know each other in a circle: {arrows:#?}");
    }
}

/// Decisions have one home, where they are pure: what observes and acts does not decide.
#[test]
fn only_the_planner_decides() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let decides = |name: &str| {
        let files = sources(&crates.join(name).join("src")).into_iter();
        let decide = |file: &PathBuf| {
            let text = without_tests(&std::fs::read_to_string(file).expect("a source is text"));
            ["fn decide(", "fn decide<"].iter().any(|word| text.contains(word))
        };
        files.filter(decide).collect::<Vec<_>>()
    };
    assert_eq!(decides("controllers"), Vec::<PathBuf>::new(), "a decision belongs into crates/planner");
    assert!(
        decides("planner").len() >= 6,
        "the planner has the decisions of every kind: {:?}",
        decides("planner")
    );
}

/// The source files of a crate, without those of its tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(folder).expect("a folder of sources").map(|entry| entry.expect("an entry").path());
    let is_test = |path: &PathBuf| {
        let name = path.file_stem().expect("a name").to_string_lossy();
        ["tests", "fixture", "lib", "bin", "fuzz"].contains(&&*name) || name.ends_with("_tests")
    };
    let files = entries
        .filter(|path| !is_test(path))
        .flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    files.collect()
}

/// A source up to its unit tests, without comments.
fn without_tests(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
    // What tests alone use stands behind its attribute.
    let mut kept = Vec::new();
    let mut skip = false;
    for line in lines {
        if !skip {
            kept.push(line);
        }
        skip = line.trim() == "#[cfg(test)]";
    }
    kept.join("\n")
}

/// The modules in `crate::…` paths of a source: one, or several in braces.
fn used(text: &str) -> impl Iterator<Item = String> + '_ {
    let word = |text: &str| {
        text.chars()
            .take_while(|c| c.is_ascii_lowercase() || *c == '_' || c.is_ascii_digit())
            .collect::<String>()
    };
    text.split("crate::")
        .skip(1)
        .flat_map(move |path| {
            let Some(list) = path.strip_prefix('{') else { return vec![word(path)] };
            let (mut depth, mut names) = (0, vec![String::new()]);
            for letter in list.chars() {
                match letter {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => names.push(String::new()),
                    _ if depth == 0 => names.last_mut().expect("one is there").push(letter),
                    _ => {}
                }
            }
            names.iter().map(|name| word(name.trim())).collect()
        })
        .filter(|name| !name.is_empty())
}
