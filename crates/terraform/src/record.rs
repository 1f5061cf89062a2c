//! Durable record of a workspace, kept across restarts: one file, written whole.
//!
//! The intent of a run is in it before the run's first process starts, together with the inputs a later destroy needs.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    beneath::read_optional,
    failure::{Failure, Reason},
    folders::WorkspaceFolder,
    hash::sha256,
    inputs::{Inputs, Revision},
    order::{Operation, RunId, WorkspaceId},
    private_files::{write_durable, write_whole},
    seen::Seen,
    state::State,
    state_backend::{Kept, Running},
    unsaved::Unsaved,
    view::{Claim, Finished, Plan},
};

/// The record of a workspace.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub workspace: WorkspaceId,
    /// Of the last apply that got past its plan, or may have.
    pub inputs: Option<Inputs>,
    pub applied: Option<Revision>,
    pub touched: bool,
    pub planned: Option<Planned>,
    /// The inputs of the last look that found drift and whose plan is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looked: Option<Inputs>,
    pub current: Option<Journal>,
    pub last: Option<Finished>,
    /// The entry the workspace uses, which must not be cleaned away.
    #[serde(rename = "shape")]
    pub init_entry: Option<String>,
    /// The code of that apply, where it lies on this machine: a destroy needs just that, whatever became of the folder since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// The values of these before the apply under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Box<Before>>,
    /// The state is not here but where the backend says.
    #[serde(default)]
    pub remote: bool,
    /// Addresses and ids of what a killed run made and did not write to its state any more.
    #[serde(default)]
    pub unsaved: BTreeMap<String, Unsaved>,
    /// The state of record as the last run left it, where it is kept here.
    #[serde(default)]
    pub state: Option<Seal>,
    /// Outputs that hold a secret of the inputs they were made from. Kept, since the inputs may have other secrets by now.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub masked: BTreeSet<String>,
    /// The hash of the place that a backend keeps the state in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// The origin of the code that made all that is here, the state and what is not in it yet. Nothing where nobody vouches for that: it
    /// was imported, kept where others write, or made before this was noted. Code and credentials that are only lent do not work on it then:
    /// a state names what is destroyed, and providers that are started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_by: Option<String>,
    /// A run left no state that tells of what it did: the state of record is not the whole truth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<Box<Doubt>>,
    /// Since when its state is this workspace's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
    /// Identifies the kept copy as it was last seen or written. Nothing where it was never kept, or by an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Seen>,
}

/// Reason not to trust a state, until there is another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Doubt {
    pub failure: Failure,
    /// The checksum of the state that is not believed; nothing where there was none.
    pub state: Option<String>,
}

impl Doubt {
    /// Returns true if the doubt is about this state of record.
    pub fn is_about(&self, state: Option<&[u8]>) -> bool {
        self.state == state.map(|bytes| sha256([bytes]))
    }
}

/// A kept plan with what it takes to apply it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Planned {
    pub plan: Plan,
    pub inputs: Inputs,
    pub lineage: String,
    /// SHA-256 of the plan's file.
    pub file: String,
}

/// A run under way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Journal {
    pub id: RunId,
    pub operation: Operation,
    pub revision: Revision,
    /// Inputs of the run, if they are not those of the record: a plan and a drift check leave those alone.
    pub inputs: Option<Inputs>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    pub stage: Stage,
    /// Path of the files that its process started with.
    pub start: PathBuf,
    /// The state is not here but where the backend says.
    pub remote: bool,
    /// The memory it was expected to need.
    pub estimate: u64,
    pub started: Timestamp,
    pub timeout: Duration,
    pub max_destroy: Option<u32>,
    /// Somebody else can go on with the workspace.
    #[serde(default)]
    pub shared: bool,
}

/// A process of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stage {
    /// `plan`, kept.
    Plan,
    /// `plan`, not kept.
    Look,
    /// `apply`, which plans by itself.
    Apply,
    /// `apply` of the kept plan.
    ApplyPlan,
    Destroy,
    Import,
}

impl Stage {
    /// Returns true if the process changes anything but files of its own.
    pub const fn changes(self) -> bool {
        !matches!(self, Self::Plan | Self::Look)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Look => "look",
            Self::Apply => "apply",
            Self::ApplyPlan => "apply-plan",
            Self::Destroy => "destroy",
            Self::Import => "import",
        }
    }
}

/// Reads a record. Those of older versions have no checksum.
fn unsealed(bytes: &[u8]) -> io::Result<Record> {
    #[derive(Deserialize)]
    struct Sealed<'a> {
        sha256: &'a str,
        #[serde(borrow)]
        record: &'a RawValue,
    }
    let damaged = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    if !bytes.starts_with(b"{\"sha256\"") {
        return serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()));
    }
    let sealed: Sealed<'_> = serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
    if sha256([sealed.record.get().as_bytes()]) != sealed.sha256 {
        return Err(damaged("its checksum is wrong".to_owned()));
    }
    serde_json::from_str(sealed.record.get()).map_err(|error| damaged(error.to_string()))
}

/// Fingerprint of the state of record. A state that is missing, cut or altered against it is not treated as an empty one. A newer
/// one of the same lineage is fine: a run was cut off, or a user worked on it with Terraform.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seal {
    pub serial: u64,
    pub lineage: String,
    pub resources: usize,
    pub sha256: String,
}

/// Damage of a state of record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    Missing { resources: usize },
    OtherLineage,
    Older { known: u64, found: u64 },
    Altered,
}

impl Seal {
    pub fn of(state: &State, bytes: &[u8]) -> Self {
        let State { serial, lineage, resources, .. } = state;
        Self {
            serial: *serial,
            lineage: lineage.clone(),
            resources: resources.len(),
            sha256: sha256([bytes]),
        }
    }

    /// The file name of a copy: it sorts by serial, and tells whether the copy is whole and whose code made it.
    pub fn copy_name(&self, made_by: Option<&str>) -> String {
        let maker = made_by.map(|origin| format!("-{}", &sha256([origin.as_bytes()])[..16]));
        format!("{}{}.tfstate", self.copy_stem(), maker.unwrap_or_default())
    }

    /// Common start of the file names of a copy, whoever made it.
    pub fn copy_stem(&self) -> String {
        format!("{:012}-{}", self.serial, &self.sha256[..16])
    }

    pub fn check(&self, found: Option<(&State, &[u8])>) -> Result<(), Damage> {
        match found {
            None if self.resources == 0 => Ok(()),
            None => Err(Damage::Missing { resources: self.resources }),
            Some((state, _)) if state.lineage != self.lineage => Err(Damage::OtherLineage),
            Some((state, _)) if state.serial < self.serial => {
                Err(Damage::Older { known: self.serial, found: state.serial })
            }
            Some((state, bytes)) if state.serial == self.serial && sha256([bytes]) != self.sha256 => {
                Err(Damage::Altered)
            }
            Some(_) => Ok(()),
        }
    }
}

impl Damage {
    /// In words, with the way out.
    pub fn failure(self, path: &Path, copies: usize) -> Failure {
        let (reason, what) = self.words();
        let next = way_out(copies);
        Failure::new(reason, format!("the state {} {what}; {next}", path.display()))
    }

    /// In words, where the state is kept elsewhere; a copy is here.
    pub fn in_backend(self, copy: &Path) -> Failure {
        let (reason, what) = self.words();
        let copy = copy.display();
        let next = format!(
            "nothing is built until it is back: restore it there, for instance with `terraform state push` of the copy {copy}"
        );
        Failure::new(reason, format!("the state in the backend {what}; {next}"))
    }

    fn words(self) -> (Reason, String) {
        match self {
            Self::Missing { resources } => (
                Reason::StateLost,
                format!("is missing; resources that the last run left in it: {resources}"),
            ),
            Self::OtherLineage => {
                (Reason::StateDamaged, "is of another lineage than the last run left".to_owned())
            }
            Self::Older { known, found } => {
                (Reason::StateDamaged, format!("has serial {found}, and the last run left {known}"))
            }
            Self::Altered => (Reason::StateDamaged, "is not the one that the last run left".to_owned()),
        }
    }
}

/// Remedy for a state that is damaged or gone, of which so many good copies are kept.
pub(crate) fn way_out(copies: usize) -> String {
    let next = match copies {
        0 => "restore the file, or give a state with `capt import-state`".to_owned(),
        1 => "`capt state restore` restores the one good copy".to_owned(),
        copies => format!("`capt state restore` restores the newest of {copies} good copies"),
    };
    format!("nothing is built until it is back: {next}")
}

/// The part of a record that a state backend keeps, beside the inputs.
#[derive(Serialize, Deserialize)]
struct Essence {
    workspace: WorkspaceId,
    applied: Option<Revision>,
    touched: bool,
    remote: bool,
    #[serde(default)]
    unsaved: BTreeMap<String, Unsaved>,
    #[serde(default)]
    state: Option<Seal>,
    #[serde(default)]
    masked: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    made_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    doubt: Option<Box<Doubt>>,
    /// The hash of the code of the last apply, of which no copy is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    claim: Option<Claim>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    turn: Option<u64>,
}

/// Fields of a record that a state backend seals: the inputs, and the location that a backend keeps their state in. Write access to
/// the location alone would be enough to block other workspaces.
#[derive(Serialize)]
struct Built<'a> {
    #[serde(flatten)]
    inputs: &'a Inputs,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<&'a String>,
}

/// The files of a module that was applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Code {
    /// The entry that has a copy; nothing where another engine made it.
    #[serde(rename = "shape")]
    pub init_entry: Option<String>,
    /// The hash of the files.
    pub content: String,
}

/// Inputs, code and backend of the last good apply, kept while another one is under way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Before {
    inputs: Inputs,
    code: Option<Code>,
    made_by: Option<String>,
    remote: bool,
    backend: Option<String>,
    /// Of the state of record, where it is kept here.
    serial: Option<u64>,
}

/// The place alone.
#[derive(Deserialize)]
struct BuiltIn {
    #[serde(default)]
    place: Option<String>,
}

impl Record {
    pub fn new(workspace: WorkspaceId) -> Self {
        Self {
            workspace,
            inputs: None,
            applied: None,
            touched: false,
            planned: None,
            looked: None,
            current: None,
            last: None,
            init_entry: None,
            code: None,
            before: None,
            remote: false,
            unsaved: BTreeMap::new(),
            state: None,
            masked: BTreeSet::new(),
            backend: None,
            made_by: None,
            doubt: None,
            claim: None,
            seen: None,
        }
    }

    /// Returns true if there is no sign that anything was ever built, imported or started.
    pub fn is_blank(&self) -> bool {
        let Self { inputs, applied, touched, remote, unsaved, .. } = self;
        inputs.is_none() && applied.is_none() && !touched && !remote && unsaved.is_empty()
    }

    /// The entry that have copies of code that is still needed.
    pub fn copies(&self) -> impl Iterator<Item = String> {
        let before = self.before.as_ref().and_then(|before| before.code.as_ref());
        self.code.iter().chain(before).filter_map(|code| code.init_entry.clone())
    }

    /// Keeps what is known of what is there, for as long as nobody knows what becomes of an apply.
    pub fn begin(&mut self) {
        if !self.touched || self.before.is_some() {
            return;
        }
        let Some(inputs) = self.inputs.clone() else { return };
        self.before = Some(Box::new(Before {
            inputs,
            code: self.code.clone(),
            made_by: self.made_by.clone(),
            remote: self.remote,
            backend: self.backend.clone(),
            serial: self.state.as_ref().map(|seal| seal.serial),
        }));
    }

    /// An apply has ended. Where it was `refused` before it began, and left the state as it was, what is there is still of the one
    /// before: a destroy needs its inputs, and those that were refused might be refused then, too.
    pub fn end(&mut self, refused: bool, state: Option<&State>) {
        let Some(before) = self.before.take() else { return };
        let is_as_it_was =
            before.serial.is_none_or(|serial| state.is_some_and(|state| state.serial == serial));
        if !(refused && is_as_it_was) {
            return;
        }
        let Before { inputs, code, made_by, remote, backend, serial: _ } = *before;
        (self.inputs, self.code, self.made_by) = (Some(inputs), code, made_by);
        (self.remote, self.backend) = (remote, backend);
    }

    /// Notes whose lineage the state has, and since when where it is another one than before.
    pub fn hold(&mut self, state: Option<&State>, now: Timestamp) {
        let Some(lineage) = state.map(|state| &state.lineage).filter(|lineage| !lineage.is_empty()) else {
            return;
        };
        if self.claim.as_ref().is_none_or(|claim| claim.lineage != *lineage) {
            self.claim = Some(Claim { lineage: lineage.clone(), since: now });
        }
    }

    /// Its claim on a state; on the one it knows of where that cannot be read.
    pub fn claim_on(&self, state: Option<&State>) -> Option<Claim> {
        let known = || self.state.as_ref().map(|seal| &*seal.lineage);
        let lineage = state.map(|state| &*state.lineage).or_else(known)?;
        self.claim.clone().filter(|claim| claim.lineage == lineage).or_else(|| Claim::unknown(lineage))
    }

    pub fn read(folder: &WorkspaceFolder) -> io::Result<Option<Self>> {
        let Some(bytes) = read_optional(&folder.record())? else { return Ok(None) };
        unsealed(&bytes)?.of(folder).map(Some)
    }

    /// Refuses one that is not of the workspace whose folder it is in: a copy of another's, or one that somebody forged.
    pub fn of(self, folder: &WorkspaceFolder) -> io::Result<Self> {
        if folder.0.file_name().is_some_and(|name| *name == *self.workspace.folder()) {
            return Ok(self);
        }
        let why = format!("it is the record of workspace {}", self.workspace);
        Err(io::Error::new(io::ErrorKind::InvalidData, why))
    }

    pub fn write(&self, folder: &WorkspaceFolder) -> io::Result<()> {
        write_durable(&folder.record(), &self.sealed()?)
    }

    /// With a checksum: a flipped bit mostly leaves JSON, and a record that is slightly wrong is worse than none.
    fn sealed(&self) -> io::Result<Vec<u8>> {
        let record = serde_json::to_vec(self)?;
        let mut sealed = format!("{{\"sha256\":\"{}\",\"record\":", sha256([record.as_slice()])).into_bytes();
        sealed.extend(record);
        sealed.push(b'}');
        Ok(sealed)
    }

    /// Writes the end of a run. Should the machine crash now, the end is found again in the run's files, which go later.
    pub fn write_end(&self, folder: &WorkspaceFolder) -> io::Result<()> {
        write_whole(&folder.record(), &self.sealed()?)
    }

    /// Content for the state backend, with the state of record.
    pub fn kept(&self, state: Vec<u8>, running: Option<Running>) -> Kept {
        let Self {
            workspace,
            inputs,
            applied,
            touched,
            remote,
            unsaved,
            state: seal,
            masked,
            made_by,
            doubt,
            code,
            claim,
            ..
        } = self.clone();
        let content = code.map(|code| code.content);
        let turn = Some(Seen::next(self.seen.as_ref()));
        let essence = Essence {
            workspace,
            applied,
            touched,
            remote,
            unsaved,
            state: seal,
            masked,
            made_by,
            doubt,
            content,
            claim,
            turn,
        };
        let record = serde_json::to_vec(&essence).expect("maps with text as keys are JSON");
        let place = self.backend.as_ref();
        let sealed = inputs.as_ref().map(|inputs| Built { inputs, place });
        let inputs = sealed.map(|built| serde_json::to_vec(&built).expect("maps with text as keys are JSON"));
        Kept { record, inputs: inputs.unwrap_or_default(), state, running }
    }

    /// From what a state backend kept.
    pub fn from_kept(kept: &Kept) -> serde_json::Result<Self> {
        let Essence {
            workspace,
            applied,
            touched,
            remote,
            unsaved,
            state,
            masked,
            made_by,
            doubt,
            content,
            claim,
            turn: _,
        } = serde_json::from_slice(&kept.record)?;
        // A state backend gives inputs back only with the record and the state that were kept with them.
        let sealed = (!kept.inputs.is_empty()).then_some(&kept.inputs);
        let inputs = sealed.map(|bytes| serde_json::from_slice(bytes)).transpose()?;
        let backend = sealed.map(|bytes| serde_json::from_slice::<BuiltIn>(bytes)).transpose()?;
        let backend = backend.and_then(|built| built.place);
        // Else anybody can have written them: nobody vouches for what is there, and what was applied an apply finds out.
        let sealed = sealed.is_some();
        let (applied, made_by) = (applied.filter(|_| sealed), made_by.filter(|_| sealed));
        let claim = claim.filter(|_| sealed);
        Ok(Self {
            inputs,
            applied,
            touched,
            remote,
            unsaved,
            state,
            masked,
            backend,
            made_by,
            doubt,
            claim,
            code: content.map(|content| Code { init_entry: None, content }),
            seen: Some(Seen::of(kept)),
            ..Self::new(workspace)
        })
    }
}
