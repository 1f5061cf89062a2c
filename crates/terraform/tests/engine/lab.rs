//! What the tests share: a folder, an engine in it, modules that leave traces.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use capt_terraform::{
    Engine, Executor, Options,
    engine::StartError,
    executor::{Interruption, RunReader},
    inputs::{BinaryName, Inputs},
    order::{Operation, Order, RunId, WorkspaceId},
    view::{Finished, Outcome, View},
};

/// Longer than anything takes, on a machine that does ten other things.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// What guards the runs of tests.
pub const GUARD: &str = env!("CARGO_BIN_EXE_capt-guard");

/// A binary the tests run with.
#[derive(Clone, Debug)]
pub struct Tool {
    pub name: BinaryName,
    pub path: OsString,
}

/// Terraform and OpenTofu, as far as this machine has them.
pub fn tools() -> Vec<Tool> {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    if let Ok(peers) = capt_e2e::Peers::find(&[capt_e2e::Peer::Tofu]) {
        path.push(":");
        path.push(peers.folder());
    }
    let has = |name: &str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    let mut tools = Vec::new();
    for (program, name) in [("terraform", BinaryName::Terraform), ("tofu", BinaryName::Tofu)] {
        if has(program) {
            tools.push(Tool { name, path: path.clone() });
        }
    }
    if tools.is_empty() {
        assert!(!capt_e2e::required(), "neither terraform nor tofu is installed");
        capt_e2e::skip("neither terraform nor tofu is installed");
    }
    tools
}

/// The first of them.
pub fn tool() -> Option<Tool> {
    tools().into_iter().next()
}

/// A folder with an engine.
pub struct Lab {
    pub folder: tempfile::TempDir,
    pub tool: Tool,
    pub engine: Engine,
}

impl Lab {
    pub async fn new(tool: &Tool) -> Self {
        Self::with(tool, |_| ()).await
    }

    pub async fn with(tool: &Tool, change: impl FnOnce(&mut Options)) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let engine = start(folder.path(), tool, change).await;
        Self { folder, tool: tool.clone(), engine }
    }

    /// Stops the engine, and starts another in the same folder.
    pub async fn restart(self) -> Self {
        let Self { folder, tool, engine } = self;
        engine.stop().await;
        let engine = start(folder.path(), &tool, |_| ()).await;
        Self { folder, tool, engine }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The folder of a workspace.
    pub fn folder_of(&self, name: &str) -> PathBuf {
        let start = format!("{name}-");
        let mut folders =
            fs::read_dir(self.path("data/workspaces")).expect("a folder").flatten().map(|entry| entry.path());
        folders
            .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&start)))
            .expect("the workspace has a folder")
    }

    pub fn inputs(&self, text: &str) -> Inputs {
        let mut inputs = Inputs::inline(text);
        inputs.binary.name = self.tool.name;
        inputs
    }

    /// A module of one resource that leaves traces.
    pub fn traced(&self, name: &str) -> Inputs {
        self.inputs(&traced(&self.path("trace"), name))
    }

    pub fn trace(&self) -> Vec<String> {
        trace(&self.path("trace"))
    }

    pub async fn run(&self, name: &str, operation: Operation, inputs: Option<Inputs>) -> Finished {
        self.run_order(Order::new(WorkspaceId::new(name), operation, inputs)).await
    }

    pub async fn run_order(&self, order: Order) -> Finished {
        let workspace = order.workspace.clone();
        let id = self.engine.start_run(order).await.expect("taken");
        let finished = self.ended(&workspace).await;
        assert_eq!(finished.id, id);
        finished
    }

    /// Cancels the run of a workspace; false where there is none.
    pub fn cancel(&self, workspace: &WorkspaceId) -> bool {
        let run = self.engine.observe(workspace).run;
        run.is_some_and(|run| self.engine.cancel_run(workspace, &run.id, Interruption::Cancelled))
    }

    /// Reads the log of a run.
    pub async fn log(&self, name: &str, run: &RunId) -> String {
        self.engine.read_log(&WorkspaceId::new(name), run).read().await.expect("a log")
    }

    pub async fn apply(&self, name: &str, inputs: Inputs) -> Finished {
        self.run(name, Operation::Apply, Some(inputs)).await
    }

    pub fn look(&self, name: &str) -> View {
        self.engine.observe(&WorkspaceId::new(name))
    }

    /// Waits until no run of the workspace is left.
    pub async fn ended(&self, workspace: &WorkspaceId) -> Finished {
        self.until(workspace, |view| view.run.is_none() && view.last.is_some()).await.last.expect("just seen")
    }

    pub async fn until(&self, workspace: &WorkspaceId, seen: impl Fn(&View) -> bool) -> View {
        let mut changes = self.engine.changes();
        let wait = async {
            loop {
                let view = self.engine.observe(workspace);
                if seen(&view) {
                    return view;
                }
                // Lagging is fine: the view is looked at again in any case.
                let _ = tokio::time::timeout(Duration::from_secs(1), changes.recv()).await;
            }
        };
        let reached = tokio::time::timeout(PATIENCE, wait).await;
        reached.unwrap_or_else(|_| {
            // What it waits for may be another.
            let all: Vec<_> =
                self.engine.workspaces().into_iter().map(|id| (self.engine.observe(&id).run, id)).collect();
            panic!("{workspace} never got there: {:#?}; runs: {all:#?}", self.engine.observe(workspace))
        })
    }
}

pub async fn start(folder: &Path, tool: &Tool, change: impl FnOnce(&mut Options)) -> Engine {
    let mut options = Options::new(folder.join("data"));
    options.guard = GUARD.into();
    options.path = Some(tool.path.clone());
    // Modules of the tests lie beside the data folder.
    options.allow_paths = capt_e2e::aws_mirror().into_iter().chain([folder.to_owned()]).collect();
    // Long enough for a machine that does ten other things: one that is interrupted twice does not save its state.
    options.grace = Duration::from_secs(60);
    change(&mut options);
    // The folder of an engine that was just stopped is free a moment later: a process that is being started has its lock
    // until it has become another program.
    let started =
        capt_e2e::until("the engine starts", PATIENCE, async || match Engine::start(options.clone()).await {
            Err(StartError::InUse(_)) => None,
            started => Some(started.expect("the engine starts")),
        });
    started.await.expect("the folder is free")
}

/// One resource: a line in the trace when it is made, and one when it is destroyed. `v` replaces it, `note` does not.
pub fn traced(trace: &Path, name: &str) -> String {
    format!(
        r#"variable "v" {{
  default = "1"
}}
variable "note" {{
  default = ""
}}
resource "terraform_data" "r" {{
  triggers_replace = var.v
  input            = "{trace}"
  provisioner "local-exec" {{
    command = "echo create {name} >> ${{self.input}}"
  }}
  provisioner "local-exec" {{
    when    = destroy
    command = "echo destroy {name} >> ${{self.input}}"
  }}
}}
output "note" {{
  value = "note ${{var.note}}"
}}
output "v" {{
  value = terraform_data.r.triggers_replace
}}
"#,
        trace = trace.display()
    )
}

pub fn trace(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

pub fn reason(finished: &Finished) -> &'static str {
    match &finished.outcome {
        Outcome::Failed(failure) => failure.reason.as_str(),
        other => panic!("did not fail: {other:?}"),
    }
}

/// All files below a folder that hold a text.
pub fn files_with(folder: &Path, text: &str) -> Vec<PathBuf> {
    assert!(folder.is_dir(), "{} is no folder", folder.display());
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        // What a run removes meanwhile holds nothing.
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if fs::read(&path).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(text)) {
                found.push(path);
            }
        }
    }
    found
}

/// All files below a folder with a name.
pub fn files_named(folder: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = files_with(folder, "");
    found.retain(|path| path.file_name().is_some_and(|file| file == name));
    found
}
