//! Recovery of a damaged store: shows what can be read, and makes a new database of it.
//!
//! Readings of the files are compared, all on copies: the database as SQLite reads it, with a [mended](mend) log, and
//! without one. The newest commit that is whole in one of them is what the store goes on with; where none is, every object whose
//! newest row is good.
//!
//! ```text
//! inspect:  copies in recovering/ -> surveys -> the best of them, and what it lacks
//! apply:    damaged-TIME/ gets the files as they are
//!           recovering/new -> recovered/          from here on the recovery is finished, not begun again
//!           recovered/* -> their places, the old log removed
//! ```
//!
//! The new database goes on with revisions far behind those of the old one: none is given out twice, and clients that
//! saw what was lost are told to list again.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, FileExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    Database, FILE,
    files::{self, Files, PAGE},
    head, log_of, mend,
    salvage::Survey,
};
use crate::store::{
    folder::{Folder, OpenError},
    key::{Key, Revision},
    object::Object,
};

/// The folder of copies and of the new database during a recovery; obsolete otherwise.
const WORK: &str = "recovering";
/// The path of the new database until it replaces the damaged one.
const DONE: &str = "recovered";
/// How far the revisions of a recovered store are from all that were seen: more than a store gives out between two
/// writes of its head record to disk.
const GAP: u64 = 1_000_000;

/// Returns whether a recovery was cut short.
pub(super) fn is_unfinished(database: &Path) -> bool {
    database.with_file_name(DONE).exists()
}

/// An object that is not as it was last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Its name.
    pub key: Key,
    /// The newest revision that is known of it.
    pub newest: Revision,
    /// True if that was its deletion.
    pub deleted: bool,
    /// The revision that it goes back to; `None` where it is gone.
    pub kept: Option<Revision>,
}

/// A store that is damaged or missing, and what can be made of it.
#[derive(Debug)]
pub struct Recovery {
    folder: Folder,
    damage: String,
    missing: bool,
    answered: Option<Revision>,
    objects: Vec<Arc<Object>>,
    revision: Revision,
    complete: bool,
    lost: Vec<Lost>,
    next: Revision,
}

impl Recovery {
    /// Looks at the store in a folder, and finishes a recovery that was cut short; `None` where the store is sound.
    pub fn inspect(folder: &Path) -> Result<Option<Self>, OpenError> {
        let folder = Folder::claim(folder)?;
        let path = folder.file(FILE);
        if is_unfinished(&path) {
            finish(&folder)?;
        }
        let files = Files(&path);
        let head = files.head()?;
        let missing = head == head::Found::Missing && matches!(files.exist(head), Ok(false));
        let damage = if missing {
            format!("there is no store in {}", folder.path().display())
        } else {
            match Database::check(&folder) {
                Ok(()) => return Ok(None),
                Err(error @ OpenError::Damaged { .. }) => error.to_string(),
                Err(error) => return Err(error),
            }
        };
        let surveys = survey(&folder)?;
        let best = surveys
            .iter()
            .max_by_key(|survey| (survey.whole.map_or(0, |commit| commit.number + 1), survey.versions.len()));
        let empty = Survey::default();
        let best = best.unwrap_or(&empty);
        let record = head.record();
        let answered = record.map(|record| record.revision);
        let complete = best.whole.is_some_and(|commit| head.is_reached_by(commit.number));
        let objects: Vec<_> = best.newest().into_values().filter_map(|(_, object)| object.cloned()).collect();
        let newest = surveys.iter().map(Survey::revision).max().max(answered).unwrap_or(Revision::START);
        let lost = lost(&surveys, best);
        let (revision, next) = (best.revision(), Revision::new(newest.get().saturating_add(GAP)));
        Ok(Some(Self { folder, damage, missing, answered, objects, revision, complete, lost, next }))
    }

    /// The damage of the store.
    pub fn damage(&self) -> &str {
        &self.damage
    }

    /// Returns whether there is no store at all, nor any trace of one.
    pub fn is_missing(&self) -> bool {
        self.missing
    }

    /// The revision up to which writes are known to have been answered.
    pub fn answered(&self) -> Option<Revision> {
        self.answered
    }

    /// The objects that the store goes on with.
    pub fn objects(&self) -> &[Arc<Object>] {
        &self.objects
    }

    /// The revision that these objects are of.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns whether all answered writes are among them.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// The objects that are known to be lost, or to go back to an earlier version.
    pub fn lost(&self) -> &[Lost] {
        &self.lost
    }

    /// Makes the new store. Returns the folder that keeps the files as they were, which is named after `time`; `None`
    /// where there were none.
    pub fn apply(self, time: &str) -> Result<Option<PathBuf>, OpenError> {
        let kept = self.folder.file(&format!("damaged-{time}"));
        let mut any = false;
        for path in [self.folder.file(FILE), log_of(&self.folder.file(FILE)), self.folder.file(head::FILE)] {
            if path.is_file() {
                keep(&path, &kept).map_err(refused("copy", &path))?;
                any = true;
            }
        }
        let work = self.folder.file(WORK);
        let new = work.join("new");
        make_folder(&new).map_err(refused("make folder", &new))?;
        Files(&new.join(FILE)).create_with(&self.objects, self.next)?;
        let done = self.folder.file(DONE);
        fs::rename(&new, &done).map_err(refused("rename", &new))?;
        self.folder.sync()?;
        finish(&self.folder)?;
        Ok(any.then_some(kept))
    }
}

fn refused(attempt: &'static str, path: &Path) -> impl Fn(io::Error) -> OpenError {
    let path = path.to_owned();
    move |source| OpenError::File { attempt, path: path.clone(), source }
}

fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn keep(path: &Path, folder: &Path) -> io::Result<()> {
    make_folder(folder)?;
    let copy = folder.join(path.file_name().unwrap_or_default());
    fs::copy(path, &copy)?;
    File::open(&copy)?.sync_all()?;
    File::open(folder)?.sync_all()
}

/// Puts the new database in its place. Done again, it goes on where it was cut short.
fn finish(folder: &Folder) -> Result<(), OpenError> {
    let done = folder.file(DONE);
    let finish = || {
        // Before anything else: SQLite would take the old log for that of the new database.
        remove(&log_of(&folder.file(FILE)))?;
        for name in [FILE, head::FILE] {
            let new = done.join(name);
            if new.exists() {
                fs::rename(&new, folder.file(name))?;
            }
        }
        fs::remove_dir_all(&done)?;
        match fs::remove_dir_all(folder.file(WORK)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    };
    finish().map_err(refused("finish the recovery in", &done))?;
    folder.sync()
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Reads copies of the files in every way that promises something.
fn survey(folder: &Folder) -> Result<Vec<Survey>, OpenError> {
    let (path, work) = (folder.file(FILE), folder.file(WORK));
    let read = || {
        if work.exists() {
            fs::remove_dir_all(&work)?;
        }
        make_folder(&work)?;
        let log = match fs::read(log_of(&path)) {
            Ok(log) => Some(log),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let mended = log.as_deref().and_then(mend::mend);
        let mut surveys = Vec::new();
        let is_logged = log.is_some();
        for (name, log) in [("as-is", log), ("mended", mended)] {
            if name == "as-is" || log.is_some() {
                surveys.push(survey_copy(&path, &work.join(name), log.as_deref())?);
            }
        }
        if is_logged {
            // The log may be an older copy than the database.
            surveys.push(survey_copy(&path, &work.join("alone"), None)?);
        }
        Ok(surveys)
    };
    read().map_err(refused("copy into", &work))
}

/// Reads a copy of the database with this log; where SQLite cannot, with the first page of a new database, which is the
/// same but for figures that reading does not need.
fn survey_copy(database: &Path, work: &Path, log: Option<&[u8]>) -> io::Result<Survey> {
    make_folder(work)?;
    let copy = work.join(FILE);
    let put = |first: Option<&[u8]>| {
        remove(&copy)?;
        let size = if database.is_file() { fs::copy(database, &copy)? } else { 0 };
        if let Some(first) = first {
            let mut first = first.to_vec();
            if size > 0 {
                let pages = u32::try_from(size / u64::from(PAGE)).unwrap_or(u32::MAX).max(1);
                first.truncate(PAGE as usize);
                first[28..32].copy_from_slice(&pages.to_be_bytes());
            }
            File::options().create(true).truncate(false).write(true).open(&copy)?.write_all_at(&first, 0)?;
        }
        remove(&log_of(&copy))?;
        if let Some(log) = log {
            File::create(log_of(&copy))?.write_all(log)?;
        }
        Ok::<_, io::Error>(())
    };
    put(None)?;
    let survey = if copy.exists() { Survey::of(&copy) } else { Survey::default() };
    if survey.whole.is_some() || !survey.versions.is_empty() {
        return Ok(survey);
    }
    let template = work.join("template.db");
    files::create_template(&template).map_err(io::Error::other)?;
    put(Some(&fs::read(&template)?))?;
    Ok(Survey::of(&copy))
}

/// Compares what is kept with all that was seen.
fn lost(surveys: &[Survey], kept: &Survey) -> Vec<Lost> {
    let mut seen: BTreeMap<&Key, (Revision, bool)> = BTreeMap::new();
    for (key, (revision, object)) in surveys.iter().flat_map(Survey::newest) {
        let newest = seen.entry(key).or_insert((revision, object.is_none()));
        if newest.0 < revision {
            *newest = (revision, object.is_none());
        }
    }
    let kept = kept.newest();
    let lost = seen.into_iter().filter_map(|(key, (newest, deleted))| {
        let kept = kept.get(key).and_then(|(revision, object)| object.map(|_| *revision));
        let same = kept.map_or(deleted, |kept| kept == newest);
        (!same).then(|| Lost { key: key.clone(), newest, deleted, kept })
    });
    lost.collect()
}
