//! The last failed run below an object: of its workspace, or of a machine that a set has replaced since.

use std::io;

use capt_api::machine::{CaptMachineSet, MachineFailure};
use capt_terraform::RunReader;
use capt_terraform::executor::Run;
use capt_terraform::order::WorkspaceId;
use kube::ResourceExt;

use super::client::Connection;
use super::family::{Member, family};
use super::logs::reader;
use super::object::Reference;

/// A run that failed.
pub struct FailedRun {
    /// Name of its object.
    pub name: String,
    /// Its workspace.
    pub workspace: WorkspaceId,
    /// The run.
    pub run: Run,
    /// Reads its log.
    pub reader: Box<dyn RunReader>,
}

/// Finds the last run that failed.
pub async fn find(connection: &Connection, reference: &Reference) -> io::Result<FailedRun> {
    let members = family(connection, reference).await?;
    let mut names: Vec<String> = told(&members).into_iter().collect();
    names.extend(members.iter().filter_map(Member::workspace).map(|workspace| workspace.name_any()));
    let Some(reader) = reader(connection) else {
        return Err(io::Error::other(
            "logs are where the controller runs: name its folder with --data-dir, or run this there (kubectl exec)",
        ));
    };
    // What a set tells is the last; else any run that failed, the latest first.
    let first = names.len() - members.iter().filter(|member| member.workspace().is_some()).count();
    let mut found = Vec::new();
    for (at, name) in names.into_iter().enumerate() {
        let workspace = WorkspaceId::new(format!("{}/{name}", connection.namespace));
        let failed = reader.last_failed(&workspace).await.ok().flatten();
        found.extend(failed.map(|run| (at.min(first), name, workspace, run)));
    }
    found.sort_by(|(rank, .., run), (other_rank, .., other)| (rank, &other.id).cmp(&(other_rank, &run.id)));
    match found.into_iter().next() {
        Some((_, name, workspace, run)) => Ok(FailedRun { name, workspace, run, reader }),
        None => Err(io::Error::other(format!(
            "no failed run of {reference} is kept\n  how it stands: capt status, capt events {reference}"
        ))),
    }
}

/// The workspace of the machine that failed last, where a set below tells of one.
fn told(members: &[Member]) -> Option<String> {
    let sets = members.iter().filter(|member| member.kind.name == "CaptMachineSet");
    let sets = sets.filter_map(|member| member.object.clone().try_parse::<CaptMachineSet>().ok());
    let failures = sets.filter_map(|set| set.status?.last_failure);
    let when = |failure: &MachineFailure| failure.time.as_ref().map(|time| time.0);
    failures.max_by_key(when).map(|failure| failure.workspace)
}
