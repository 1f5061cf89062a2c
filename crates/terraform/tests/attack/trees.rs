//! Folders that a module makes so that nobody can remove them: too deep, or with names that stand in the way.

use std::{fs, path::Path};

use capt_terraform::{
    Engine, Options, WorkspaceStore,
    inputs::Variable,
    order::{Operation, WorkspaceId},
    view::Outcome,
};
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};

use crate::{
    alone,
    lab::{GUARD, Lab, tool},
    peak,
};

/// Makes a tree deeper than there are handles.
fn deep(folder: &Path, depth: usize) {
    fs::create_dir_all(folder).expect("a folder");
    let mut at = openat(CWD, folder, OFlags::DIRECTORY, Mode::empty()).expect("opened");
    for _ in 0..depth {
        mkdirat(&at, "d", Mode::RWXU).expect("a folder");
        at = openat(&at, "d", OFlags::DIRECTORY, Mode::empty()).expect("opened");
    }
}

/// A shape whose module was refused stays until the next start.
#[tokio::test]
async fn a_tree_of_any_depth_keeps_no_engine_from_starting() {
    // Handles are counted for all tests together.
    if !alone("trees::a_tree_of_any_depth_keeps_no_engine_from_starting", "ulimit -n 128") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    deep(&data.join("shapes/refused/fetch/data/modules"), 1000);
    // Nor what is not there to be removed.
    fs::write(data.join("shapes/file"), "").expect("write");
    let mut options = Options::new(data.clone());
    options.guard = GUARD.into();
    let engine = Engine::start(options).await.expect("starts");
    assert_eq!(fs::read_dir(data.join("shapes")).expect("there").count(), 0, "it is cleared up");
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_name_keeps_a_folder_from_being_emptied() {
    let Some(tool) = tool() else { return };
    let lab = Lab::new(&tool).await;
    let plants = "for f in $HOME $PWD ..; do cd $f; \
         for i in $(seq 40); do : > .capt-gone-$i; mkdir -p a$i/b/c; mkdir -p .capt-gone-$((i+40))/x; done; done";
    let module = format!(
        "variable \"v\" {{\n  default = \"1\"\n}}\nresource \"terraform_data\" \"a\" {{\n  triggers_replace = var.v\n  \
         provisioner \"local-exec\" {{\n    command = {}\n  }}\n}}\n",
        serde_json::to_string(plants).expect("text")
    );
    let mut inputs = lab.inputs(&module);
    assert_eq!(lab.apply("a", inputs.clone()).await.outcome, Outcome::Done);
    inputs.variables.insert("v".into(), Variable::from("2"));
    assert_eq!(lab.apply("a", inputs).await.outcome, Outcome::Done, "a later run");
    assert_eq!(lab.run("a", Operation::Destroy, None).await.outcome, Outcome::Done);
    lab.engine.forget(&WorkspaceId::new("a")).await.expect("forgotten");
    assert_eq!(fs::read_dir(lab.folder_of("a")).expect("there").count(), 1, "all but the mark is gone");
}

/// More memory than these bytes is too much.
const MOST: u64 = 4 << 20;

#[tokio::test]
async fn a_folder_of_many_names_takes_no_memory() {
    let Some(tool) = tool() else { return };
    // Memory is that of all tests together.
    if !alone("trees::a_folder_of_many_names_takes_no_memory", "true") {
        return;
    }
    let lab = Lab::new(&tool).await;
    let mut inputs = lab.inputs("variable \"v\" {}\noutput \"v\" {\n  value = var.v\n}\n");
    let mut before = 0;
    for round in ["1", "2", "3"] {
        inputs.variables.insert("v".into(), Variable::from(round));
        if round == "3" {
            let work = lab.folder_of("a").join("guest/work");
            for n in 0..30_000 {
                fs::File::create(work.join(format!("{n:0240}"))).expect("a file");
            }
            before = peak();
        }
        assert_eq!(lab.apply("a", inputs.clone()).await.outcome, Outcome::Done);
    }
    let more = peak() - before;
    assert!(more < MOST, "{more} bytes");
}
