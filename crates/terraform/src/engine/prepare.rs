//! What a run needs before its process can start, and the record of its intent.

use std::{path::PathBuf, sync::Arc, time::Duration};

use jiff::Timestamp;

use super::{
    blocking,
    inner::revision_of,
    job::{Halt, Job},
    settle::{self, Shadow},
    told::Told,
};
use crate::{
    binary::Program,
    failure::{Class, Failure, Reason},
    folders::make_private,
    inputs::{Inputs, Revision, sha256},
    order::{Operation, PlanId},
    record::{Journal, Planned, Record, Stage},
    redact::Redactor,
    secrets,
    shape::{self, Held, Shape, work},
    state::State,
    view::{Phase, Plan},
};

/// What a run stands on.
pub(super) struct Ground {
    pub record: Record,
    pub inputs: Option<Inputs>,
    pub revision: Option<Revision>,
    pub binary: Option<Program>,
    pub shape: Option<Arc<Shape>>,
    pub start: PathBuf,
    pub remote: bool,
    pub nothing_to_destroy: bool,
    /// What the last process told.
    pub told: Told,
    estimate: u64,
    /// Secrets of the state as it was.
    secrets: Vec<String>,
}

impl Ground {
    pub fn bare(record: Record) -> Self {
        Self {
            record,
            inputs: None,
            revision: None,
            binary: None,
            shape: None,
            start: PathBuf::new(),
            remote: false,
            nothing_to_destroy: false,
            told: Told::default(),
            estimate: 0,
            secrets: Vec::new(),
        }
    }

    /// Of a run that was adopted.
    pub fn of_journal(record: Record, journal: &Journal) -> Self {
        let inputs = journal.inputs.clone().or_else(|| record.inputs.clone());
        Self {
            inputs,
            revision: Some(journal.revision.clone()),
            start: journal.start.clone(),
            remote: journal.remote,
            estimate: journal.estimate,
            ..Self::bare(record)
        }
    }

    /// Keeps a plan that was just made.
    pub fn planned(&mut self, plan: Plan, lineage: String, file: String) {
        if let Some(inputs) = self.inputs.clone() {
            self.record.planned = Some(Planned { plan, inputs, lineage, file });
        }
    }

    pub fn estimate(&self) -> u64 {
        self.shape.as_ref().map_or(self.estimate, |shape| shape.estimate())
    }

    pub fn redactor(&self) -> Redactor {
        self.redactor_with(&self.secrets)
    }

    pub fn redactor_with(&self, of_state: &[String]) -> Redactor {
        match &self.inputs {
            Some(inputs) => secrets::redactor(inputs, of_state),
            None => Redactor::new(of_state.iter().cloned()),
        }
    }
}

impl Job {
    pub async fn prepare(&self) -> Result<Ground, Halt> {
        let record = self.inner.load(&self.workspace).await.map_err(|error| Failure::of_workspace(&error))?;
        let (folder, own) = (self.folder.clone(), self.id.clone());
        let (record, state) = blocking(move || {
            let record = settle::catch_up(&folder, record, &own)?;
            let state = settle::read(&folder).or_else(|_| settle::settle(&folder, &folder.work(), false))?;
            Ok::<_, Failure>((record, state))
        })
        .await?;
        let mut ground = Ground::bare(record);
        if self.operation == Operation::Destroy
            && !ground.record.remote
            && state.as_ref().is_none_or(State::is_empty)
        {
            ground.nothing_to_destroy = true;
            return Ok(ground);
        }
        let inputs = self.choose(&ground.record)?;
        let (inner, chosen) = (self.inner.clone(), inputs.clone());
        // An import tells nothing of itself.
        let tells = !matches!(self.operation, Operation::Import { .. });
        let plain = tells && state.as_ref().is_none_or(State::builtin_only) && shape::is_plain(&inputs);
        let (binary, revision) = blocking(move || {
            let binary = inner.binaries.find_to_run(&chosen.binary, plain);
            let binary = binary.map_err(until_another_is_installed)?;
            let revision = revision_of(&chosen, &binary.name)?;
            Ok::<_, Failure>((binary, revision))
        })
        .await?;
        if let Operation::ApplyPlan(id) = &self.operation {
            self.fresh(&ground.record, id, state.as_ref()).await?;
        }
        let shape = self.shape(&inputs, &binary, state.as_ref()).await?;
        let (folder, rendered, of) = (self.folder.clone(), inputs.clone(), shape.clone());
        ground.start = blocking(move || {
            folder.make().map_err(|error| Failure::io("make the workspace's folder", &error))?;
            work::render(&of, &rendered, &folder).map_err(|error| match error {
                work::RenderError::FileName(_) => Failure::new(Reason::InvalidVariable, error.to_string()),
                work::RenderError::Write(error) => Failure::io("write the working folder", &error),
            })
        })
        .await?;
        ground.secrets = state.map(|state| state.secrets).unwrap_or_default();
        ground.remote = shape.remote;
        (ground.inputs, ground.binary, ground.shape, ground.revision) =
            (Some(inputs), Some(binary), Some(shape), Some(revision));
        Ok(ground)
    }

    /// Whether the binary will do: asks it, unless somebody knows.
    pub async fn ask(&self, ground: &Ground) -> Result<(), Failure> {
        let Some(inputs) = &ground.inputs else { return Ok(()) };
        let (inner, choice) = (self.inner.clone(), inputs.binary.clone());
        blocking(move || inner.binaries.find(&choice)).await.map(drop).map_err(until_another_is_installed)
    }

    /// Waits for the shape, which many may wait for.
    async fn shape(
        &self,
        inputs: &Inputs,
        binary: &Program,
        state: Option<&State>,
    ) -> Result<Arc<Shape>, Halt> {
        let held = match state.filter(|state| !state.builtin_only()) {
            Some(state) => Some(Held {
                providers: state.providers.clone(),
                bytes: std::fs::read(self.folder.state())
                    .map_err(|error| Failure::io("read the state", &error))?,
            }),
            None => None,
        };
        let (mut stop, mut stopping) = (self.stop.clone(), self.inner.stopping.subscribe());
        let shape = self.inner.shapes.get(&self.workspace, inputs, binary, held.as_ref());
        tokio::pin!(shape);
        // Most are there already; only a wait is worth telling.
        let quick = tokio::time::sleep(Duration::from_millis(50));
        tokio::select! {
            biased;
            shape = &mut shape => return Ok(shape?),
            () = quick => {}
        }
        let _aside = self.inner.aside();
        self.inner.update(&self.workspace, |view| {
            if let Some(run) = view.run.as_mut() {
                run.phase = Phase::Initialising;
            }
        });
        tokio::select! {
            biased;
            shape = &mut shape => Ok(shape?),
            _ = stop.wait_for(Option::is_some) => self.not_stopped().and(Err(Halt::Stopping)),
            _ = stopping.wait_for(|stopping| *stopping) => Err(Halt::Stopping),
        }
    }

    /// The inputs of a run. What is there to be destroyed or looked at was made from those of the last apply; only what lets a
    /// run reach the cloud may be newer.
    fn choose(&self, record: &Record) -> Result<Inputs, Failure> {
        let unknown = || {
            Failure::new(
                Reason::InvalidModule,
                "no inputs are given, and none are kept of an apply".to_owned(),
            )
        };
        let base = match &self.operation {
            Operation::Plan | Operation::Apply | Operation::Import { .. } => {
                return self.given.clone().or_else(|| record.inputs.clone()).ok_or_else(unknown);
            }
            Operation::ApplyPlan(_) => {
                record.planned.as_ref().map(|planned| planned.inputs.clone()).ok_or_else(stale)?
            }
            Operation::Destroy | Operation::Refresh => {
                record.inputs.clone().or_else(|| self.given.clone()).ok_or_else(unknown)?
            }
        };
        Ok(match self.given.clone() {
            Some(Inputs { env, files, binary, plugins, .. }) => {
                Inputs { env, files, binary, plugins, ..base }
            }
            None => base,
        })
    }

    /// Refuses a plan that is not the one that was approved, or that was made for something else.
    async fn fresh(&self, record: &Record, id: &PlanId, state: Option<&State>) -> Result<(), Failure> {
        let planned = record.planned.clone().ok_or_else(stale)?;
        let (serial, lineage) = state.map_or((0, ""), |state| (state.serial, &state.lineage));
        if planned.plan.id != *id || planned.plan.serial != serial || planned.lineage != lineage {
            return Err(stale());
        }
        if let Some(given) = &self.given {
            let (inner, given) = (self.inner.clone(), given.clone());
            let revision = blocking(move || inner.revision(&given)).await?;
            if revision != planned.plan.revision {
                return Err(stale());
            }
        }
        let path = self.folder.plan();
        let file = blocking(move || std::fs::read(path).map(|bytes| sha256([bytes.as_slice()]))).await;
        if file.ok() != Some(planned.file) {
            return Err(stale());
        }
        Ok(())
    }

    /// Writes down what is about to be done, with what a later destroy needs, before it is done.
    pub async fn intend(&self, ground: &mut Ground, stage: Stage) -> Result<(), Halt> {
        let (Some(inputs), Some(revision)) = (&ground.inputs, &ground.revision) else {
            return Err(Failure::new(Reason::InvalidModule, "nothing was prepared".to_owned()).into());
        };
        let estimate = ground.estimate();
        let record = &mut ground.record;
        let changes = stage.changes();
        if changes {
            if record.applied.as_ref() != Some(revision) || stage == Stage::Destroy {
                record.applied = None;
            }
            record.inputs = Some(inputs.clone());
            record.touched = true;
            record.remote = ground.remote;
        }
        record.shape = ground.shape.as_ref().map(|shape| shape.key.clone());
        record.current = Some(Journal {
            id: self.id.clone(),
            operation: self.operation.clone(),
            revision: revision.clone(),
            inputs: (!changes).then(|| inputs.clone()),
            stage,
            start: ground.start.clone(),
            remote: ground.remote,
            estimate,
            started: Timestamp::now(),
            timeout: self.timeout,
            max_destroy: self.max_destroy,
        });
        let (written, folder, run) = (record.clone(), self.folder.clone(), self.folder.run(&self.id));
        blocking(move || {
            make_private(&run)?;
            if changes {
                Shadow::new(&folder).look();
            }
            written.write(&folder)
        })
        .await
        .map_err(|error| Failure::io("record the run", &error))?;
        if changes {
            self.keep(&ground.record, None).await?;
        }
        self.inner.update(&self.workspace, |view| {
            view.touched |= changes;
            view.applied.clone_from(&ground.record.applied);
            if let Some(run) = view.run.as_mut() {
                run.revision = Some(revision.clone());
            }
        });
        Ok(())
    }
}

/// A binary that will not do may be replaced without a change of any input. Whoever asks for the revision hears of it until then.
pub(super) fn until_another_is_installed(failure: Failure) -> Failure {
    Failure { class: Class::Transient, ..failure }
}

fn stale() -> Failure {
    let message = "the approved plan is not the one that is kept, or was made for other inputs or another state; plan again";
    Failure::new(Reason::PlanStale, message.to_owned())
}
