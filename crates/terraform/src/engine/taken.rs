//! Taking in again what a killed run made and its state does not have, under the ids that its stream told. Terraform writes a state that is
//! kept elsewhere every 20 seconds only, OpenTofu every state.
//!
//! Nothing is built before: it would be made a second time, and nobody would know of the first.

use std::ffi::OsString;

use super::{
    job::{Halt, Job},
    prepare::RunContext,
    pull::CommandOutput,
    state_recovery,
};
use crate::{
    failure::{Class, Failure, Reason, Step},
    folders::guest,
    order::Operation,
    process::Ended,
    record::Stage,
    unsaved::{Standing, Unsaved},
};

/// The stage of imports beside a run.
pub(super) const IMPORT: &str = "import-beside";
/// Messages of imports that can never succeed: the object is gone, or its provider knows no import. Terraform, then the two kits that
/// providers are made with.
const NEVER: [&str; 3] =
    ["cannot import non-existent remote object", "doesn't support import", "does not support import"];

impl Job {
    /// Returns true if objects of a killed run have to be imported first.
    pub fn has_to_take_in(&self, context: &RunContext) -> bool {
        let builds =
            matches!(self.operation, Operation::Apply | Operation::ApplyPlan(_) | Operation::Destroy);
        builds && !context.record.unsaved.is_empty()
    }

    /// Takes in what a killed run made, with the code and the inputs that made it: the object's may have another name for it by now, or
    /// none. Journalled like any stage: a process that changes the state must be found by the next engine.
    pub async fn make_up(&self, context: &mut RunContext, stages: &[Stage]) -> Result<Vec<String>, Halt> {
        let Some(stage) = stages.iter().find(|stage| stage.changes()) else { return Ok(Vec::new()) };
        if self.operation != Operation::Destroy {
            *context = self.about_last_apply().prepare().await.map_err(|halt| about(halt, context))?;
        }
        let warnings = self.hand_in(context).await?;
        self.find(context).await?;
        self.intend(context, *stage).await?;
        let room = self.room(context).await?;
        self.take_in(context).await?;
        drop(room);
        if self.operation != Operation::Destroy {
            let mut prepared = self.prepare().await?;
            prepared.record.unsaved.clone_from(&context.record.unsaved);
            *context = prepared;
        }
        Ok(warnings)
    }

    /// The same run, about what the last apply made.
    fn about_last_apply(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            id: self.id.clone(),
            workspace: self.workspace.clone(),
            urgency: self.urgency,
            operation: Operation::Refresh,
            given: self.given.clone(),
            aim: None,
            timeout: self.timeout,
            max_destroy: None,
            expects_state: false,
            stop: self.stop.clone(),
            folder: self.folder.clone(),
            started: self.started,
        }
    }

    /// Takes all in. What cannot be taken in holds up every run until it can; what never can is told once, before it is made anew.
    async fn take_in(&self, context: &mut RunContext) -> Result<(), Halt> {
        let state = self.state_now(context).await?;
        let (mut lost, mut taken) = (Vec::new(), false);
        while let Some((address, unsaved)) = context.record.unsaved.pop_first() {
            let standing = unsaved.standing(&address, &state);
            // One that begins with a dash would be an argument: the stream is the module's to fill.
            if standing == Standing::Saved || address.starts_with('-') {
                continue;
            }
            taken = true;
            match self.take(context, &address, &unsaved, standing).await {
                Ok(None) => {}
                Ok(Some(why)) => lost.push((address, unsaved, why)),
                Err(held) => {
                    let lost = lost.into_iter().map(|(address, unsaved, _)| (address, unsaved));
                    context.record.unsaved.extend(lost.chain([(address, unsaved)]));
                    return Err(held);
                }
            }
        }
        if taken && context.remote {
            self.pull(context).await?;
        }
        if lost.is_empty() {
            return Ok(());
        }
        let lost: Vec<_> = lost.into_iter().map(|(_, _, why)| why).collect();
        let message =
            format!("{}; the next run goes on without: remove by hand what is left of it", lost.join("; "));
        Err(Failure { class: Class::Transient, ..Failure::new(Reason::ImportFailed, message) }.into())
    }

    /// Takes one object in, or says why that can never be.
    async fn take(
        &self,
        context: &RunContext,
        address: &str,
        unsaved: &Unsaved,
        standing: Standing,
    ) -> Result<Option<String>, Halt> {
        let id = &unsaved.id;
        let made = format!("{address} (id {id}) was made by a run that was killed");
        if let Standing::Taken(other) = standing {
            let message = format!(
                "{made} and is in no state, and the state has id {other} at that address; nothing is built until one of the two is \
                 destroyed by hand and the state has the other: `terraform state rm` takes one out, `terraform import` brings one in"
            );
            let held = Failure::new(Reason::ImportFailed, message);
            return Err(held.redacted(&context.redactor().await).into());
        }
        let Err(CommandFailure { failure, never }) = self.replace(context, address, id, standing).await
        else {
            return Ok(None);
        };
        let failure = failure.redacted(&context.redactor().await);
        if never {
            return Ok(Some(format!("{made}, and cannot be taken into the state: {}", failure.message)));
        }
        let why = failure.message;
        let message = format!("{made}, and could not be taken into the state, so no run starts: {why}");
        Err(Failure { message, ..failure }.into())
    }

    /// Imports an object; what is gone of that address is taken out of the state before.
    async fn replace(
        &self,
        context: &RunContext,
        address: &str,
        id: &str,
        standing: Standing,
    ) -> Result<(), CommandFailure> {
        if standing == Standing::Outdated {
            self.change_state(context, &["state", "rm"], &[address]).await?;
        }
        self.change_state(context, &["import", "-no-color", "-input=false"], &[address, id]).await
    }

    /// A command that changes the state.
    async fn change_state(
        &self,
        context: &RunContext,
        words: &[&str],
        about: &[&str],
    ) -> Result<(), CommandFailure> {
        let mut args: Vec<OsString> = words.iter().map(OsString::from).collect();
        if !context.remote {
            let state = self.folder.guest().join(guest::STATE);
            // `state rm` cannot be told to write none.
            let backup = self.scratch().join("before.tfstate");
            for (flag, path) in [("-state=", state), ("-backup=", backup)] {
                let mut arg = OsString::from(flag);
                arg.push(path);
                args.push(arg);
            }
        }
        args.extend(about.iter().map(OsString::from));
        match self.beside(context, IMPORT, &args).await {
            Some(CommandOutput { ended: Ended::Code(0), .. }) => {
                state_recovery::collect(&self.folder, &context.start, context.remote, None, 0)
                    .map(drop)
                    .map_err(|failure| CommandFailure { failure, never: false })
            }
            Some(said) => {
                // A person may mend it without a change of any input.
                let failure = Failure { class: Class::Transient, ..said.failure(Step::Import) };
                Err(CommandFailure { failure, never: can_never(&said.errors) })
            }
            None => {
                let failure = Failure::killed("no command could be started for that".to_owned());
                Err(CommandFailure { failure, never: false })
            }
        }
    }
}

/// Why a command did not change the state.
struct CommandFailure {
    failure: Failure,
    /// It never will.
    never: bool,
}

/// Adds to the halt what waits for it.
fn about(halt: Halt, context: &RunContext) -> Halt {
    let (Halt::Failed(failure), Some((address, unsaved))) = (&halt, context.record.unsaved.first_key_value())
    else {
        return halt;
    };
    let message = format!(
        "{address} (id {}) was made by a run that was killed, and the code that made it cannot be prepared to take it into the state: {}",
        unsaved.id, failure.message
    );
    Halt::Failed(Failure { message, ..failure.clone() })
}

/// Returns true if an import can never succeed. Lines are broken where the terminal would end.
fn can_never(errors: &str) -> bool {
    let text = errors.replace(['│', '╷', '╵'], " ").to_lowercase();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    NEVER.iter().any(|words| text.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_never_be_taken_in() {
        let rows = [
            ("│ Error: Cannot import\n│ non-existent remote object\n", true),
            ("Error: resource random_pet doesn't support import", true),
            (
                "│ Error: Resource Import Not Implemented\n│ \n│ This resource does not support\n│ import. Please contact",
                true,
            ),
            ("Error: unexpected format of ID", false),
            ("Error: resource address \"a.b\" does not exist in the configuration.", false),
            ("", false),
        ];
        for (errors, never) in rows {
            assert_eq!(can_never(errors), never, "{errors}");
        }
    }
}
