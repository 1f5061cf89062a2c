//! Why a run failed: its class, a reason for a condition, and a message of one line.
//!
//! The class of a reason comes from one match. Reasons are told by words of messages, those of Terraform and OpenTofu first,
//! then those of clouds; a failure that no word explains is named after the step that failed, and is worth another try.

pub(crate) mod fetch;
pub(crate) mod inputs;
mod message;
mod tell;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    redact,
    stream::{Diagnostic, Severity},
};

/// Class of a failure, which decides about the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Class {
    /// Another try, later.
    Transient,
    /// A change of the inputs: another try of the same would fail the same way.
    Terminal,
}

macro_rules! reasons {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// The reason of a failure, as a condition has it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Reason {
            $($(#[doc = $doc])* $name,)*
        }

        impl Reason {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The word for a condition or a label.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }
        }
    };
}

reasons! {
    /// The module, or the provider configuration beside it, is wrong.
    InvalidModule,
    /// A variable's value does not fit it.
    InvalidVariable,
    /// A variable has neither a value nor a default.
    MissingVariable,
    /// A module's source leads nowhere.
    ModuleNotFound,
    /// An argument would change what a run means.
    ArgumentNotAllowed,
    /// An environment variable would change what a run means.
    EnvironmentNotAllowed,
    /// A path of the host lies below no folder that the operator allows.
    PathNotAllowed,
    /// A provider, or the version asked for, is nowhere to be had.
    ProviderNotFound,
    /// There is no binary to run.
    BinaryNotFound,
    /// The module or the provider configuration asks for another version of the binary.
    BinaryTooOld,
    /// The binary cannot run or crashed, or a provider's cannot be started.
    BinaryBroken,
    /// A provider's process crashed.
    ProviderCrashed,
    /// The binary ended well and did not say what it did.
    NoSummary,
    /// `init` has to be run, again.
    NotInitialised,
    /// Somebody else holds the state's lock.
    StateLocked,
    /// The state cannot be kept where others would find it.
    StateNotKept,
    /// The state would be in the place of another workspace's.
    BackendInUse,
    /// The state is encrypted, or of a newer format.
    StateUnreadable,
    /// The state is cut, altered, older, or of another lineage than the record knows.
    StateDamaged,
    /// The state, or all that was known of the workspace, is gone.
    StateLost,
    /// The record of the workspace is damaged.
    RecordDamaged,
    /// The state is of another owner, or can have been written by anybody, and the template is lent by another namespace.
    StateNotTrusted,
    /// Credentials are missing, wrong, expired, or not enough.
    Credentials,
    /// The cloud asks for fewer requests.
    Throttled,
    /// Something could not be reached.
    Network,
    /// Something must not be destroyed: its `prevent_destroy` says so.
    DestroyPrevented,
    /// `init` failed.
    InitFailed,
    /// The plan failed.
    PlanFailed,
    /// The apply failed.
    ApplyFailed,
    /// The destroy failed.
    DestroyFailed,
    /// The import failed.
    ImportFailed,
    /// It took too long.
    Timeout,
    /// It was cancelled.
    Cancelled,
    /// It was killed, or the machine went down.
    Killed,
    /// The disk is full.
    DiskFull,
    /// The plan would destroy more than is allowed.
    PlanTooDestructive,
    /// The state changed after the plan was made.
    PlanStale,
}

impl Reason {
    /// Returns true if something that CAPT relies on is damaged or gone.
    pub const fn is_damage(self) -> bool {
        matches!(self, Self::StateDamaged | Self::StateLost | Self::RecordDamaged)
    }

    /// Class of failures with this reason.
    pub const fn class(self) -> Class {
        match self {
            Self::InvalidModule
            | Self::InvalidVariable
            | Self::MissingVariable
            | Self::ModuleNotFound
            | Self::ArgumentNotAllowed
            | Self::EnvironmentNotAllowed
            | Self::PathNotAllowed
            | Self::ProviderNotFound
            | Self::BinaryTooOld
            | Self::StateUnreadable
            | Self::StateDamaged
            | Self::StateNotTrusted
            | Self::StateLost
            | Self::RecordDamaged
            | Self::DestroyPrevented
            | Self::PlanTooDestructive => Class::Terminal,
            // Somebody may install a binary, repair it, or renew credentials without a change of any input.
            Self::BinaryNotFound
            | Self::BinaryBroken
            | Self::ProviderCrashed
            | Self::NoSummary
            | Self::Credentials
            | Self::NotInitialised
            | Self::StateLocked
            | Self::StateNotKept
            | Self::BackendInUse
            | Self::Throttled
            | Self::Network
            | Self::InitFailed
            | Self::PlanFailed
            | Self::ApplyFailed
            | Self::DestroyFailed
            | Self::ImportFailed
            | Self::Timeout
            | Self::Cancelled
            | Self::Killed
            | Self::DiskFull
            | Self::PlanStale => Class::Transient,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Step of a run that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Step {
    /// `init`.
    Init,
    /// `plan`, also of a refresh.
    Plan,
    /// `apply`.
    Apply,
    /// `destroy`.
    Destroy,
    /// `import`.
    Import,
}

impl Step {
    const fn failed(self) -> Reason {
        match self {
            Self::Init => Reason::InitFailed,
            Self::Plan => Reason::PlanFailed,
            Self::Apply => Reason::ApplyFailed,
            Self::Destroy => Reason::DestroyFailed,
            Self::Import => Reason::ImportFailed,
        }
    }
}

/// The longest message. It may name what a manifest says, of any length and with any characters.
const LONGEST: usize = 1024;

/// A failure, ready to be shown; clean its message of secrets first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// Class, which decides about the next attempt.
    pub class: Class,
    /// Why.
    pub reason: Reason,
    /// In one line.
    pub message: String,
    /// The variable whose value is missing or wrong: the message begins with it, see [`Failure::given_as`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variable: Option<String>,
}

impl Failure {
    /// A failure that no diagnostic tells of.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        let message = redact::one_line(&message.into(), LONGEST);
        Self { class: reason.class(), reason, message, variable: None }
    }

    /// The same in other words.
    pub(crate) fn saying(self, message: &str) -> Self {
        Self { message: redact::one_line(message, LONGEST), ..self }
    }

    /// The same in the words of whoever gave the variables: `place` is where the value is written, or would be.
    #[must_use]
    pub fn given_as(self, place: impl FnOnce(&str) -> String) -> Self {
        let Some(name) = &self.variable else { return self };
        let Some(rest) = self.message.strip_prefix(&inputs::subject(name)) else { return self };
        let message = place(name) + rest;
        self.saying(&message)
    }
}

/// Why a run failed. `exit` is `None` where a signal ended it; `stderr` is the end of what it wrote there, which a run with
/// `-json` does only when something is very wrong.
pub fn classify(step: Step, diagnostics: &[Diagnostic], exit: Option<i32>, stderr: &str) -> Failure {
    let errors: Vec<&Diagnostic> = diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.severity == Severity::Error && !tell::halted(diagnostic))
        .collect();
    let Some(&first) = errors.first() else {
        let printed = fetch::printed(stderr);
        let halted = diagnostics.iter().any(tell::halted);
        let crashed = message::of_crash(stderr).is_some();
        return if printed.is_empty() || halted || crashed || exit.is_none() {
            without_diagnostics(step, diagnostics, exit, stderr)
        } else {
            classify(step, &printed, exit, "")
        };
    };
    // The first error that says more than "it failed" is the one to show. A full disk explains all others.
    let told: Vec<(&Diagnostic, Reason)> =
        errors.iter().filter_map(|error| Some((*error, tell::reason(error)?))).collect();
    let full = told.iter().find(|(_, reason)| *reason == Reason::DiskFull);
    let (error, reason) = full.or(told.first()).copied().unwrap_or((first, step.failed()));
    let mut message = message::of(error, reason, errors.len() - 1);
    if reason == Reason::ProviderCrashed
        && let Some(crash) = message::of_crash(stderr)
    {
        message = format!("{crash}: {message}");
    }
    // An interrupt or a kill makes errors of its own, and these are not the cause.
    let reason = match exit {
        _ if diagnostics.iter().any(tell::halted) => {
            message = format!("interrupted: {message}");
            Reason::Cancelled
        }
        None if reason == step.failed() => {
            message = format!("killed by a signal: {message}");
            Reason::Killed
        }
        _ => reason,
    };
    Failure { variable: inputs::variable(error, reason), ..Failure::new(reason, message) }
}

/// The end of what a process wrote besides its stream, in one line.
pub(crate) fn last_words(text: &str) -> String {
    message::of_stderr(text)
}

fn without_diagnostics(step: Step, diagnostics: &[Diagnostic], exit: Option<i32>, stderr: &str) -> Failure {
    if diagnostics.iter().any(tell::halted) {
        return Failure::new(Reason::Cancelled, "interrupted");
    }
    let said = message::of_stderr(stderr);
    let with = |text: &str| if said.is_empty() { text.to_owned() } else { format!("{text}: {said}") };
    if let Some(reason) = tell::by_words(stderr) {
        return Failure::new(reason, said);
    }
    if let Some(crash) = message::of_crash(stderr) {
        return Failure::new(Reason::ProviderCrashed, crash);
    }
    match exit {
        None => Failure::new(Reason::Killed, with("killed by a signal")),
        Some(126) => Failure::new(Reason::BinaryBroken, with("the binary cannot be run")),
        Some(127) => Failure::new(Reason::BinaryNotFound, with("the binary was not found")),
        Some(code) if tell::crashed(stderr) => {
            Failure::new(Reason::BinaryBroken, with(&format!("crashed with exit code {code}")))
        }
        Some(code) => Failure::new(step.failed(), with(&format!("exit code {code}"))),
    }
}

#[cfg(test)]
mod tests;
