//! What objects may name of the machine that `capt up` runs on.

use std::path::Path;

use crate::plane::{Plane, capt, said};

fn objects(name: &str, module: &Path) -> String {
    format!(
        "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nkind: WorkspaceTemplate\nmetadata: {{name: {name}}}\nspec: {{template: {{spec: {{module: {{source: {}}}}}}}}}\n---\napiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nkind: WorkspaceTemplateApply\nmetadata: {{name: {name}}}\nspec: {{templateRef: {{name: {name}}}}}\n---\n",
        module.display()
    )
}

fn module(folder: &Path) -> &Path {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("main.tf"), "output \"x\" {\n  value = \"of-a-folder\"\n}\n").unwrap();
    folder
}

#[test]
fn objects_name_only_folders_that_the_operator_gave() {
    if !capt_e2e::has_terraform() {
        return;
    }
    let lab = tempfile::tempdir().unwrap();
    let root = std::fs::canonicalize(lab.path()).unwrap();
    let (files, data) = (root.join("files"), root.join("data"));
    let (inside, outside) = (files.join("modules/in"), root.join("outside"));
    let text = objects("inside", module(&inside)) + &objects("outside", module(&outside));
    std::fs::write(files.join("all.yaml"), text).unwrap();
    let mut arguments = vec!["-f", files.to_str().unwrap()];
    if capt_terraform::sandbox::gaps().is_empty() {
        arguments.push("--require-sandbox");
    }
    let plane = Plane::start(&data, &arguments);
    let json = ["status", "-A", "-o", "json"];
    plane.phase("WorkspaceTemplateApply", "inside", "Ready");
    let told = plane.until(&json, |text| text.contains("PathNotAllowed"));
    assert!(told.contains("--allow-path"), "the message names the flag: {told}");
    let doctor = plane.command(&["doctor"]);
    let told = said(&doctor);
    assert_eq!(doctor.status.code(), Some(1), "a workspace fails: {told}");
    assert!(told.contains("1 of 2 workspaces fails"), "{told}");
    assert!(told.contains(&format!("below {}", files.display())), "{told}");
    plane.interrupt();
    let end = plane.event("stopped", |_| true);
    let again = format!("--allow-path {}", files.display());
    assert!(end["again"].as_str().unwrap().ends_with(&again), "objects name paths below it: {end}");
    assert!(plane.end().success());

    // What the operator gives by name.
    let plane = Plane::start(&data, &["--allow-path", root.to_str().unwrap()]);
    plane.phase("WorkspaceTemplateApply", "outside", "Ready");
}

#[test]
fn a_folder_that_is_none_is_not_allowed() {
    let lab = tempfile::tempdir().unwrap();
    let missing = lab.path().join("missing");
    let output =
        capt(&["up", "--data-dir"]).arg(lab.path().join("data")).arg("--allow-path").arg(&missing).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("--allow-path"), "{}", said(&output));
}
