//! Checks of this machine: the binary, plugins, the data folder and the locks in it.

use std::io;
use std::path::Path;

use capt_planner::Count;
use capt_terraform::engine::Settings;
use capt_terraform::executor::RunState;
use capt_terraform::inputs::{BinaryName, Choice};
use capt_terraform::inspect::Inspection;

use super::super::{confine, place};
use super::CheckFinding;

pub fn look(folder: Option<&Path>) -> Vec<CheckFinding> {
    let mut findings = vec![binary(), sandbox(folder)];
    let Some(folder) = folder else {
        findings.push(CheckFinding::ok(
            "data folder",
            "the controller of this API is on another machine, or names another folder",
        ));
        return findings;
    };
    match Inspection::to(&place::engine(folder)) {
        None => {
            findings.push(CheckFinding::ok(
                "data folder",
                format!("none yet: capt up makes {}", folder.display()),
            ));
        }
        Some(visit) => {
            findings.push(plugins(&place::engine(folder)));
            findings.extend(visit.settings().map(|settings| host_paths(&settings)));
            findings.extend(engine(folder, &visit));
        }
    }
    findings
}

fn binary() -> CheckFinding {
    let any = Choice { name: BinaryName::Auto, constraint: None };
    match capt_terraform::binary::find(&any) {
        Ok(binary) => {
            let name = if binary.name == "tofu" { "OpenTofu" } else { "Terraform" };
            CheckFinding::ok("binary", format!("{name} {} ({})", binary.version, binary.path.display()))
        }
        Err(failure) => CheckFinding::fail(
            "binary",
            failure.message,
            "install OpenTofu (https://opentofu.org/docs/intro/install) or Terraform, or run make tools; then start the controller again",
        ),
    }
}

fn sandbox(folder: Option<&Path>) -> CheckFinding {
    // Of a folder elsewhere nobody here can tell.
    match confine::warning(&confine::gaps(folder.unwrap_or(Path::new("")))) {
        None => CheckFinding::ok(
            "sandbox",
            "this kernel confines runs of Terraform to their own files (Landlock)",
        ),
        Some(warning) => CheckFinding::warn(
            "sandbox",
            warning,
            "run capt on Linux 6.12 or newer, with Landlock; capt up --require-sandbox refuses other machines",
        ),
    }
}

fn host_paths(settings: &Settings) -> CheckFinding {
    let roots: Vec<String> = settings.allow_paths.iter().map(|path| path.display().to_string()).collect();
    if roots.is_empty() {
        let none = "objects may name no folder of this machine: none was given with --allow-path";
        return CheckFinding::ok("host paths", none);
    }
    CheckFinding::ok("host paths", format!("objects may name folders below {}", roots.join(", ")))
}

fn plugins(engine: &Path) -> CheckFinding {
    let cache = engine.join("plugins");
    let hosts = std::fs::read_dir(&cache).map(Iterator::count);
    match hosts {
        Ok(0) => CheckFinding::ok(
            "plugins",
            format!("{} is empty: no module has needed a provider yet", cache.display()),
        ),
        Ok(_) => CheckFinding::ok("plugins", format!("cache {}", cache.display())),
        Err(error) => CheckFinding::fail(
            "plugins",
            format!("{}: {error}", cache.display()),
            "run capt as the user whom the data folder belongs to",
        ),
    }
}

fn engine(folder: &Path, visit: &Inspection) -> Vec<CheckFinding> {
    let running = visit.engine();
    let mut findings = Vec::new();
    let (workspaces, unreadable) = match visit.workspaces() {
        Ok(found) => found,
        Err(error) => return vec![cannot_read(folder, &error)],
    };
    findings.push(match running {
        Some(pid) => CheckFinding::ok(
            "data folder",
            format!("{}: {}, used by process {pid}", folder.display(), Count(workspaces.len(), "workspace")),
        ),
        None if workspaces.is_empty() => {
            CheckFinding::ok("data folder", format!("{}: no workspaces", folder.display()))
        }
        None => CheckFinding::warn(
            "data folder",
            format!(
                "{}: {}, and no controller uses it",
                folder.display(),
                Count(workspaces.len(), "workspace")
            ),
            "start it: capt up, or capt controller",
        ),
    });
    for path in unreadable {
        findings.push(CheckFinding::fail(
            "data folder",
            format!(
                "{} cannot be read: it is damaged, or of a newer version",
                path.join("record.json").display()
            ),
            "use the version of capt that wrote it, or restore the file",
        ));
    }
    for workspace in &workspaces {
        if let Some(lock) = workspace.stale_lock() {
            findings.push(CheckFinding::warn(
                "locks",
                format!("{}: {} was left behind by a process that is gone", workspace.id(), lock.display()),
                if running.is_some() {
                    "nothing: the next run removes it"
                } else {
                    "start the controller: its next run removes it"
                },
            ));
        }
        let dead = workspace
            .runs()
            .into_iter()
            .find(|run| matches!(run.state, RunState::UnderWay { lives: false, .. }));
        if let Some(run) = dead.filter(|_| running.is_none()) {
            findings.push(CheckFinding::warn(
                "runs",
                format!("{}: run {} was interrupted and is not settled", workspace.id(), run.id),
                "start the controller: it takes the run up, and saves what was made",
            ));
        }
    }
    findings
}

fn cannot_read(folder: &Path, error: &io::Error) -> CheckFinding {
    CheckFinding::fail(
        "data folder",
        format!("{}: {error}", folder.display()),
        "run capt as the user whom the folder belongs to",
    )
}
