//! Check of the storage that this process has to write to.

use std::fs::{File, remove_file};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Time limit of the disk.
const PATIENCE: Duration = Duration::from_secs(5);
/// What is written: a block, since a disk that is full may have room in the last block of a file.
const BLOCK: [u8; 4096] = [0; 4096];

/// Why a store takes no more writes, when it does not.
type Refusal = Box<dyn Fn() -> Option<Arc<str>> + Send + Sync>;

/// The data folder and, where this process has one, the store of its API.
pub struct Storage {
    folder: PathBuf,
    store: Option<Refusal>,
    /// One write at a time: a disk that hangs must not take a thread for each probe.
    turn: Arc<Semaphore>,
}

impl Storage {
    /// A data folder alone.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), store: None, turn: Arc::new(Semaphore::new(1)) }
    }

    /// The same, and a store that says why it takes no more writes.
    #[must_use]
    pub fn with_store(self, refuses: impl Fn() -> Option<Arc<str>> + Send + Sync + 'static) -> Self {
        Self { store: Some(Box::new(refuses)), ..self }
    }

    /// Writes a file into the data folder, and asks the store.
    pub async fn check(&self) -> Result<(), String> {
        if let Some(why) = self.store.as_ref().and_then(|refuses| refuses()) {
            return Err(format!("the store takes no more writes: {why}"));
        }
        let failed = |why: &str| format!("write into {}: {why}", self.folder.display());
        let (turn, folder) = (Arc::clone(&self.turn), self.folder.clone());
        let write = async {
            let turn = turn.acquire_owned().await.map_err(io::Error::other)?;
            let write = move || {
                let written = write_and_remove(&folder);
                drop(turn);
                written
            };
            tokio::task::spawn_blocking(write).await.map_err(io::Error::other)?
        };
        let written = timeout(PATIENCE, write).await;
        let written = written.map_err(|_| failed("the disk does not answer"))?;
        written.map_err(|error| failed(&error.to_string()))
    }
}

fn write_and_remove(folder: &Path) -> io::Result<()> {
    let path = folder.join(format!(".health-{}", std::process::id()));
    let written = File::create(&path).and_then(|mut file| file.write_all(&BLOCK));
    // One that waits for its turn on the same folder may have the same number, in a container of its own.
    let removed = remove_file(&path).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    });
    written.and(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_folder_that_cannot_be_written_to_is_told() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("data");
        let storage = Storage::new(&folder);
        let why = storage.check().await.unwrap_err();
        assert!(why.contains("data: No such file"), "{why}");
        std::fs::create_dir(&folder).unwrap();
        assert_eq!(storage.check().await, Ok(()));
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "nothing is left behind");
        // Permissions do not hold back whoever runs tests as root, this does: a process cannot write files there.
        let why = Storage::new(Path::new("/proc/self")).check().await.unwrap_err();
        assert!(why.starts_with("write into /proc/self: "), "{why}");
    }

    #[tokio::test]
    async fn a_store_that_takes_no_writes_is_told() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(Storage::new(place.path()).with_store(|| None).check().await, Ok(()));
        let broken = Storage::new(place.path()).with_store(|| Some("disk I/O error".into()));
        assert_eq!(broken.check().await.unwrap_err(), "the store takes no more writes: disk I/O error");
    }

    #[tokio::test(start_paused = true)]
    async fn a_disk_that_hangs_is_told_and_takes_one_thread() {
        let place = tempfile::tempdir().unwrap();
        let storage = Storage::new(place.path());
        let hangs = Arc::clone(&storage.turn).acquire_owned().await.unwrap();
        for _ in 0..3 {
            let why = storage.check().await.unwrap_err();
            assert!(why.ends_with("the disk does not answer"), "{why}");
        }
        drop(hangs);
        assert_eq!(storage.check().await, Ok(()));
    }
}
