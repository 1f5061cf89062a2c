//! The head record: which commit was the newest, in a file beside the database.
//!
//! SQLite takes a damaged frame of its write-ahead log for the end of the log, and so the commits behind it for ones
//! that never were. The head record tells the difference. It is written after a commit is on disk and before its writes
//! are answered, so that at any moment
//!
//! ```text
//! answered writes <= head record <= database
//! ```
//!
//! - **The process is killed**: both files are as they were last written. The record is that of the newest commit, or of
//!   the one before, if the process was killed between the two writes, and then no write was answered.
//! - **The machine loses power**: commits are synced before the record is written, so the record cannot get ahead of
//!   the database. It may fall behind, as it is not synced with every commit, which would cost as much as the commit
//!   itself: then damage to the commits after it is not found. It is synced when the store is opened and closed, and
//!   the kernel writes it within its usual time (30 s on Linux).
//! - **A database that is behind its record** has lost commits: damage.
//!
//! Two slots, written in turns: a write that was torn leaves the other. Each has a block of its own, so that one
//! damaged block leaves the other as well. The slot that is not whole may have been the newer one, of a commit that was
//! answered: then the database has to be ahead of the other, as it always is after a write that was torn.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::Path,
};

use super::chain::{Commit, HASH};
use crate::store::key::Revision;

pub(super) const FILE: &str = "store.head";
/// The offset of the second slot; the block size of nearly every file system.
const BLOCK: usize = 4096;
const MAGIC: &[u8; 8] = b"CAPThead";
const SLOT: usize = 8 + 8 + 8 + HASH + 4;

/// The record in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CommitRecord {
    /// Number of the commit.
    pub(super) number: u64,
    /// Its hash.
    pub(super) hash: [u8; HASH],
    /// The newest revision that it had taken.
    pub(super) revision: Revision,
}

impl CommitRecord {
    pub(super) fn of(commit: &Commit, revision: Revision) -> Self {
        Self { number: commit.number, hash: commit.hash, revision }
    }

    /// Returns whether no write was ever answered by the store that this belongs to.
    pub(super) fn is_of_a_new_store(&self) -> bool {
        self.number == 0 && self.revision == Revision::START
    }

    fn encode(&self) -> [u8; SLOT] {
        let Self { number, hash, revision } = self;
        let mut bytes = [0; SLOT];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..16].copy_from_slice(&number.to_le_bytes());
        bytes[16..24].copy_from_slice(&revision.get().to_le_bytes());
        bytes[24..24 + HASH].copy_from_slice(hash);
        let checksum = crc32fast::hash(&bytes[..SLOT - 4]);
        bytes[SLOT - 4..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (content, checksum) = bytes.get(..SLOT)?.split_last_chunk::<4>()?;
        if crc32fast::hash(content) != u32::from_le_bytes(*checksum) {
            return None;
        }
        let (magic, rest) = content.split_first_chunk::<8>()?;
        let (number, rest) = rest.split_first_chunk::<8>()?;
        let (revision, hash) = rest.split_first_chunk::<8>()?;
        (magic == MAGIC).then_some(Self {
            number: u64::from_le_bytes(*number),
            revision: Revision::new(u64::from_le_bytes(*revision)),
            hash: hash.try_into().ok()?,
        })
    }
}

/// The state of the head record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Missing,
    /// No slot is whole.
    Damaged,
    /// One slot is; the other may have been newer.
    Half(CommitRecord),
    /// Both are, and this is the newer one.
    Whole(CommitRecord),
}

impl Found {
    /// Reads the file's content.
    pub(super) fn of(content: &[u8]) -> Self {
        let slots = [content, content.get(BLOCK..).unwrap_or_default()];
        match slots.map(CommitRecord::decode) {
            [Some(one), Some(other)] => Self::Whole(if one.number > other.number { one } else { other }),
            [Some(only), None] | [None, Some(only)] => Self::Half(only),
            [None, None] => Self::Damaged,
        }
    }

    pub(super) fn record(self) -> Option<CommitRecord> {
        match self {
            Self::Whole(record) | Self::Half(record) => Some(record),
            Self::Missing | Self::Damaged => None,
        }
    }

    /// Returns whether a database whose newest commit has this number has all that was answered.
    pub(super) fn is_reached_by(self, number: u64) -> bool {
        match self {
            Self::Whole(record) => number >= record.number,
            Self::Half(record) => number > record.number,
            Self::Missing | Self::Damaged => false,
        }
    }
}

pub(super) fn read(path: &Path) -> io::Result<Found> {
    match fs::read(path) {
        Ok(content) => Ok(Found::of(&content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Found::Missing),
        Err(error) => Err(error),
    }
}

/// The file of the head record, open.
#[derive(Debug)]
pub(super) struct Head(File);

impl Head {
    /// Makes a new file, or replaces the one that is there, in one step that lasts once the folder is synced.
    pub(super) fn create(path: &Path, record: &CommitRecord) -> io::Result<()> {
        let mut content = vec![0; 2 * BLOCK];
        for start in [0, BLOCK] {
            content[start..start + SLOT].copy_from_slice(&record.encode());
        }
        let draft = path.with_extension("head.new");
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        file.write_all_at(&content, 0)?;
        file.sync_all()?;
        fs::rename(&draft, path)
    }

    pub(super) fn open(path: &Path) -> io::Result<Self> {
        OpenOptions::new().write(true).open(path).map(Self)
    }

    /// Writes into blocks that the file has: where the file system does not copy on write, a full disk has room for it.
    pub(super) fn write(&self, record: &CommitRecord) -> io::Result<()> {
        let start = if record.number.is_multiple_of(2) { 0 } else { BLOCK };
        self.0.write_all_at(&record.encode(), start as u64)
    }

    /// True where its name is gone, and with it most likely the database: what is written on has no place after the end.
    pub(super) fn is_removed(&self) -> bool {
        self.0.metadata().is_ok_and(|file| file.nlink() == 0)
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u64) -> CommitRecord {
        CommitRecord { number, hash: [7; HASH], revision: Revision::new(number + 10) }
    }

    #[test]
    fn a_torn_write_leaves_the_record_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        assert_eq!(read(&path).unwrap(), Found::Missing);
        Head::create(&path, &record(0)).unwrap();
        let head = Head::open(&path).unwrap();
        for number in 1..5 {
            head.write(&record(number)).unwrap();
            assert_eq!(read(&path).unwrap(), Found::Whole(record(number)));
            let content = fs::read(&path).unwrap();
            let slot = if number % 2 == 0 { 0 } else { BLOCK };
            for length in 0..SLOT {
                let mut torn = content.clone();
                torn[slot + length..slot + SLOT].fill(0);
                let found = Found::of(&torn);
                assert!(
                    found == Found::Half(record(number - 1)) || found == Found::Whole(record(number)),
                    "{length} bytes of {number}"
                );
                assert!(found.is_reached_by(number) && !found.is_reached_by(number - 1));
            }
        }
        fs::write(&path, vec![0; 2 * BLOCK]).unwrap();
        assert_eq!(read(&path).unwrap(), Found::Damaged);
        fs::write(&path, "").unwrap();
        assert_eq!(read(&path).unwrap(), Found::Damaged);
    }
}
