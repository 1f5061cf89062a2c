//! Starting in a folder that another engine used.

use std::{fs, io, sync::Arc};

use tokio::sync::watch;

use super::{end::view, inner::Inner, job::Job, state_recovery, table::Handle};
use crate::{
    beneath::remove,
    folders::WorkspaceFolder,
    record::{Journal, Record},
    view::{Running, View},
};

/// The view of a workspace that is at rest. What is wrong with its state is told at once, not by its next run.
pub(super) fn view_of(folder: &WorkspaceFolder, record: &Record) -> View {
    match state_recovery::checked(folder, record) {
        Ok(state) => view(record, state),
        Err(trouble) => View {
            trouble: Some(trouble).filter(|_| record.current.is_none() && !record.remote),
            touched: true,
            claim: record.claim_on(None),
            ..view(record, None)
        },
    }
}

impl Inner {
    /// Learns of every workspace in the folder, and goes on with the runs that were under way.
    pub fn adopt(self: &Arc<Self>) -> io::Result<()> {
        let (mut used, mut all_read) = (Vec::new(), true);
        for entry in fs::read_dir(self.folders.workspaces())? {
            let folder = WorkspaceFolder(entry?.path());
            // A record that cannot be read belongs to a workspace that cannot be named; whoever opens it hears what is wrong with it.
            let record = match Record::read(&folder) {
                Ok(Some(record)) => record,
                Ok(None) => continue,
                Err(_) => {
                    all_read = false;
                    continue;
                }
            };
            used.extend(record.init_entry.clone());
            used.extend(record.copies());
            {
                let view = view_of(&folder, &record);
                let mut table = self.table();
                let entry = table.entry(&record.workspace);
                entry.view = view;
                entry.retained = folder.retained().exists();
                entry.known = self.options.state_backend.is_none();
            }
            if let Some(journal) = record.current.clone() {
                self.adopt_run(record, journal);
            }
        }
        // One that cannot be read may have a run that lives, and needs its entry.
        if all_read { self.clear_init_cache(&used) } else { Ok(()) }
    }

    /// Goes on with a run. Whether its process lives, has ended or was killed is found out by following it.
    fn adopt_run(self: &Arc<Self>, record: Record, journal: Journal) {
        let (sender, stop) = watch::channel(None);
        let workspace = record.workspace.clone();
        {
            let mut table = self.table();
            table.under_way += 1;
            let entry = table.entry(&workspace);
            entry.known = true;
            entry.run = Some(Handle { id: journal.id.clone(), stop: sender, queued: false });
            entry.view.run = Some(Running {
                id: journal.id.clone(),
                operation: journal.operation.clone(),
                revision: Some(journal.revision.clone()),
                phase: super::job::phase(journal.stage, false),
                progress: crate::stream::Progress::default(),
                since: journal.started,
                waits_for: None,
            });
        }
        let room = self.taken(journal.estimate);
        let job = Job::adopted(self.clone(), workspace, &journal, stop);
        self.spawn(Box::pin(job.resume(record, journal, room)));
    }

    /// Removes entries that no workspace uses any more. One that is being made by a process that lives on is left alone, and what cannot be
    /// removed is no reason not to start.
    fn clear_init_cache(&self, used: &[String]) -> io::Result<()> {
        for entry in fs::read_dir(self.folders.init_cache())? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let busy = crate::init_cache::STAGES
                .iter()
                .any(|stage| crate::process::ProcessFiles::new(entry.path(), stage).lives());
            if !used.contains(&name) && !busy {
                let unused = entry.path();
                if let Err(error) = remove(&unused) {
                    tracing::warn!(entry = %unused.display(), %error, "an unused entry of the init cache cannot be removed");
                }
            }
        }
        Ok(())
    }
}
