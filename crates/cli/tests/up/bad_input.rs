//! What is wrong is said in one line, before anything happens.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::plane::{Plane, capt, said};

const GOOD: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: good\n";

/// What `capt up` says when it does not start.
fn refused(folder: &Path, arguments: &[&str]) -> String {
    let output = capt(&["up", "--data-dir"]).arg(folder).args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    said(&output)
}

#[test]
fn one_bad_file_among_many_applies_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (files, data) = (folder.path().join("files"), folder.path().join("data"));
    std::fs::create_dir(&files).unwrap();
    std::fs::write(files.join("a.yaml"), GOOD).unwrap();
    let name = files.to_str().unwrap();
    for (bad, wanted) in [
        ("a: [\n", "b.yaml:1:4: error: not YAML"),
        ("kind: CaptMachine\nmetadata: {name: x}\n", "b.yaml:1:"),
        (
            "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nkind: CaptMachine\nmetadata: {name: x}\nspec: {sice: 1}\n",
            "b.yaml:4:",
        ),
    ] {
        std::fs::write(files.join("b.yaml"), bad).unwrap();
        let text = refused(&data, &["-f", name]);
        assert!(text.contains(wanted) && text.contains("nothing was applied"), "{text}");
        assert!(!data.exists(), "nothing was started");
    }
    let text = refused(&data, &["-f", folder.path().join("nowhere").to_str().unwrap()]);
    assert!(text.contains("nowhere: error: cannot be read"), "{text}");
}

/// One object that has no place on the API: nothing of the others is applied either.
#[test]
fn an_object_without_a_place_applies_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (file, data) = (folder.path().join("a.yaml"), folder.path().join("data"));
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.example.org}\nspec:\n  group: example.org\n  scope: Namespaced\n  names: {kind: ObjectSummary, plural: things}\n  versions:\n  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}\n";
    let thing = "apiVersion: example.org/v1\nkind: ObjectSummary\nmetadata: {name: x}\n";
    let apart = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: apart, namespace: nowhere}\n";
    let space = "apiVersion: v1\nkind: Namespace\nmetadata: {name: nowhere}\n";
    for (bad, said) in [
        (thing, "nothing was applied:\n  ObjectSummary x: the API knows no ObjectSummary of example.org/v1"),
        (apart, "nothing was applied:\n  ConfigMap apart: there is no namespace nowhere"),
    ] {
        std::fs::write(&file, format!("{GOOD}---\n{bad}")).unwrap();
        let text = refused(&data, &["-f", file.to_str().unwrap()]);
        assert!(text.contains(said), "{text}");
    }
    // With what they need among the files they are applied, and what was refused before left nothing behind.
    std::fs::write(&file, [GOOD, thing, apart, crd, space].join("---\n")).unwrap();
    let plane = Plane::start(&data, &["-f", file.to_str().unwrap()]);
    plane.event("applied", |event| event["name"] == "good" && event["result"] == "created");
    plane.event("allApplied", |event| event["objects"] == 5);
    plane.interrupt();
    assert!(plane.end().success());
}

#[test]
fn a_port_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let text = refused(folder.path(), &["--listen", &address]);
    assert!(text.contains(&format!("listen on {address}: Address already in use")), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    let text = refused(folder.path(), &["--metrics", &address]);
    assert!(text.contains(&format!("serve metrics on {address}: Address already in use")), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[test]
fn a_folder_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let plane = Plane::start(folder.path(), &[]);
    let text = refused(folder.path(), &[]);
    assert!(text.contains("is in use by process"), "{text}");
    plane.interrupt();
    assert!(plane.end().success());
}

#[test]
fn a_folder_of_a_newer_version() {
    let folder = tempfile::tempdir().unwrap();
    let plane = Plane::start(folder.path(), &[]);
    plane.interrupt();
    assert!(plane.end().success());
    let store = folder.path().join("store.db");
    let mut bytes = std::fs::read(&store).unwrap();
    // SQLite keeps the number that a program gives to its format at byte 60.
    bytes[60..64].copy_from_slice(&99_u32.to_be_bytes());
    std::fs::write(&store, bytes).unwrap();
    let text = refused(folder.path(), &[]);
    assert!(text.contains("has format 99"), "{text}");
}

/// The folders above it are made, as in a new home.
#[test]
fn a_folder_in_folders_that_are_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let plane = Plane::start(&folder.path().join("share/capt"), &[]);
    plane.interrupt();
    assert!(plane.end().success());
}

#[test]
fn a_folder_without_permission() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let text = refused(&file.join("data"), &[]);
    assert!(text.contains("make folder") && text.lines().count() == 1, "{text}");
    if rustix::process::geteuid().is_root() {
        return;
    }
    let closed = folder.path().join("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o500)).unwrap();
    let text = refused(&closed.join("data"), &[]);
    assert!(text.contains("Permission denied"), "{text}");
}

#[test]
fn an_api_that_does_not_answer() {
    let folder = tempfile::tempdir().unwrap();
    // Nobody listens there; a port that was free a moment ago may be another test's now.
    let free = "127.0.0.1:1";
    let kubeconfig = folder.path().join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{{name: x, context: {{cluster: x, user: x}}}}]\nclusters: [{{name: x, cluster: {{server: 'https://{free}'}}}}]\nusers: [{{name: x, user: {{}}}}]\n"
    );
    std::fs::write(&kubeconfig, text).unwrap();
    let output = capt(&["status", "--kubeconfig"]).arg(&kubeconfig).output().unwrap();
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains(free) && text.contains("capt up"), "{text}");
}

#[test]
fn wrong_usage() {
    for arguments in
        [&["up", "--timeout", "5m"][..], &["up", "--listen", "nowhere"], &["status", "-o", "xml"]]
    {
        let output = capt(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", said(&output));
    }
}
