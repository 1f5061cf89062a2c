//! The last failed run below an object: of its workspace, or of a machine that a set has replaced since.

use std::io;

use capt_api::machine::{CaptMachineSet, MachineFailure};
use capt_terraform::inspect::{Inspection, Run};
use capt_terraform::order::WorkspaceId;
use kube::ResourceExt;

use super::client::Connection;
use super::family::{Member, family};
use super::object::Reference;
use super::place;

/// The last failed run, and the name of its workspace.
pub async fn find(connection: &Connection, reference: &Reference) -> io::Result<(String, Run)> {
    let members = family(connection, reference).await?;
    let mut names: Vec<String> = told(&members).into_iter().collect();
    names.extend(members.iter().filter_map(Member::workspace).map(|workspace| workspace.name_any()));
    let Some(visit) = connection.folder.as_deref().and_then(|folder| Inspection::to(&place::engine(folder)))
    else {
        return Err(io::Error::other(
            "logs are where the controller runs: name its folder with --data-dir, or run this there (kubectl exec)",
        ));
    };
    // What a set tells is the last; else any run that failed, the latest first.
    let first = names.len() - members.iter().filter(|member| member.workspace().is_some()).count();
    let mut found: Vec<(usize, String, Run)> = Vec::new();
    for (at, name) in names.into_iter().enumerate() {
        let id = WorkspaceId::new(format!("{}/{name}", connection.namespace));
        let lives = visit.workspace(&id).ok().flatten().and_then(|visited| visited.last_failed());
        found.extend(lives.or_else(|| visit.failed(&id)).map(|run| (at.min(first), name, run)));
    }
    found.sort_by(|(rank, _, run), (other_rank, _, other)| (rank, &other.id).cmp(&(other_rank, &run.id)));
    let (_, name, run) = found.into_iter().next().ok_or_else(|| {
        io::Error::other(format!(
            "no failed run of {reference} is kept\n  how it stands: capt status, capt events {reference}"
        ))
    })?;
    Ok((name, run))
}

/// The workspace of the machine that failed last, where a set below tells of one.
fn told(members: &[Member]) -> Option<String> {
    let sets = members.iter().filter(|member| member.kind.name == "CaptMachineSet");
    let sets = sets.filter_map(|member| member.object.clone().try_parse::<CaptMachineSet>().ok());
    let failures = sets.filter_map(|set| set.status?.last_failure);
    let when = |failure: &MachineFailure| failure.time.as_ref().map(|time| time.0);
    failures.max_by_key(when).map(|failure| failure.workspace)
}
