//! The executor from the side of who uses it: nothing slow holds up its threads, and a run is known by its id.

use std::{fs, path::Path, time::Duration};

use capt_terraform::{
    Executor, RunReader,
    executor::{Interruption, RunState},
    inputs::{BinaryName, Choice},
    order::{Operation, Order, RunId, WorkspaceId},
    view::Outcome,
};

use crate::{
    bad::program,
    lab::{Lab, Tool, reason, tool},
};

/// Longer than a script takes to start, on a machine that does ten other things.
const LONG: Duration = Duration::from_secs(60);

/// A binary that tells its version once there is a file, and then it is too old.
fn hesitant(folder: &Path) -> Tool {
    let gate = folder.join("gate");
    let text = format!(
        "#!/bin/sh\nuntil [ -e {} ]; do sleep 0.02; done\necho '{{\"terraform_version\":\"1.4.6\"}}'\n",
        gate.display()
    );
    program(&folder.join("terraform"), &text);
    let path = std::env::join_paths([folder, Path::new("/bin"), Path::new("/usr/bin")]).expect("a path");
    Tool { name: BinaryName::Terraform, path }
}

/// On a runtime of one thread, a call that blocked it would keep the other future from opening the gate, and give up the wait for the binary.
#[tokio::test]
async fn a_slow_binary_holds_up_nobody() {
    for question in ["revision", "binary", "start"] {
        let bin = tempfile::tempdir().expect("a folder");
        let lab = Lab::with(&hesitant(bin.path()), |options| options.version_timeout = LONG).await;
        let mut inputs = lab.inputs("output \"x\" { value = 1 }");
        inputs.binary.constraint = Some(">= 1.5".into());
        let order = Order::new(WorkspaceId::new("a"), Operation::Apply, Some(inputs.clone()));
        let choice = Choice { name: BinaryName::Terraform, constraint: None };
        let asked = async {
            match question {
                "revision" => lab.engine.revision(&inputs).await.err(),
                "binary" => lab.engine.binary(&choice).await.err(),
                _ => {
                    lab.engine.start_run(order).await.expect("taken");
                    None
                }
            }
        };
        let opened = async {
            tokio::task::yield_now().await;
            fs::write(bin.path().join("gate"), "").expect("written");
        };
        let (refused, ()) = tokio::join!(asked, opened);
        match question {
            "start" => assert_eq!(reason(&lab.ended(&WorkspaceId::new("a")).await), "BinaryTooOld"),
            _ => assert_eq!(refused.expect("too old").reason.as_str(), "BinaryTooOld", "{question}"),
        }
    }
}

#[tokio::test]
async fn only_the_run_that_is_named_is_cancelled() {
    let Some(tool) = tool() else { return };
    let lab = Lab::new(&tool).await;
    let (id, gate) = (WorkspaceId::new("a"), lab.path("gate"));
    let module = format!(
        "resource \"terraform_data\" \"a\" {{\n  provisioner \"local-exec\" {{\n    command = \"until [ -e {} ]; do sleep 0.05; done\"\n  }}\n}}\n",
        gate.display()
    );
    let order = Order::new(id.clone(), Operation::Apply, Some(lab.inputs(&module)));
    let run = lab.engine.start_run(order).await.expect("taken");
    let earlier = RunId::from("20200101T000000.000000-1");
    assert!(!lab.engine.cancel_run(&id, &earlier, Interruption::Cancelled), "over long ago");
    fs::write(&gate, "").expect("written");
    assert_eq!(lab.ended(&id).await.outcome, Outcome::Done);
    assert!(!lab.engine.cancel_run(&id, &run, Interruption::Cancelled), "it is over");
    let runs = lab.engine.runs(&id).await.expect("readable").expect("one ran");
    assert_eq!(runs.iter().map(|run| &run.id).collect::<Vec<_>>(), [&run]);
    assert!(matches!(&runs[0].state, RunState::Ended(end) if end.outcome == Outcome::Done));
    assert!(lab.log("a", &run).await.contains("Creation complete"));
    assert_eq!(lab.log("a", &earlier).await, "", "nobody printed anything");
    assert!(lab.engine.runs(&WorkspaceId::new("b")).await.expect("readable").is_none(), "nothing ever ran");
}
