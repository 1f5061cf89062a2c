//! Whatever a disk or a run made of a state, a record or a path: nothing panics, nothing that is spoilt is taken for what it was,
//! and nothing outside of a folder is touched.
//!
//! `CAPT_FUZZ_CASES` sets the number of cases (`make fuzz` runs many), `CAPT_FUZZ_SEED` the seed.

use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt, path::Path};

use crate::{
    beneath::Dir,
    folders::WorkspaceFolder,
    order::WorkspaceId,
    record::{Record, Seal},
    state::State,
    state_backend::Kept,
};

/// Enough to notice a broken reader in `make test`.
const CASES: u64 = 20_000;
/// Paths are tried on a real disk.
const CASES_ON_DISK: u64 = CASES / 10;

const STATES: [&[u8]; 3] = [
    include_bytes!("../tests/states/terraform.tfstate"),
    include_bytes!("../tests/states/terraform-deposed.tfstate"),
    include_bytes!("../tests/states/tofu-encrypted.tfstate"),
];

struct Fuzz(u64);

impl Fuzz {
    fn new() -> Self {
        let seed = std::env::var("CAPT_FUZZ_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
        println!("seed {seed}");
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 11
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next()).unwrap_or(0) % end.max(1)
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// Bytes with pieces cut out, doubled, flipped, or taken from elsewhere.
    fn spoilt(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for _ in 0..=self.below(4) {
            let (one, other) = (self.below(bytes.len()), self.below(bytes.len()));
            let (start, end) = (one.min(other), one.max(other).min(one.min(other) + 200));
            match self.below(7) {
                0 => bytes.truncate(start),
                1 => drop(bytes.drain(start..end)),
                2 => {
                    let piece = bytes[start..end].to_vec();
                    bytes.splice(start..start, piece);
                }
                3 if !bytes.is_empty() => bytes[one] ^= 1 << self.below(8),
                4 if !bytes.is_empty() => bytes[start..end].fill(0),
                5 => {
                    let words: [&[u8]; 8] = [
                        b"null",
                        b"-1",
                        b"1e999",
                        b"\"\"",
                        b"[]",
                        b"{}",
                        b"\"\\ud800\"",
                        b"18446744073709551615",
                    ];
                    let word = self.one(&words);
                    bytes.splice(start..end, word.iter().copied());
                }
                _ => {
                    let open = self.one::<&[u8]>(&[b"[", b"{\"a\":", b"{\"resources\":[", b"\""]);
                    let many = open.repeat(1 << self.below(14));
                    bytes.splice(start..start, many);
                }
            }
        }
        bytes
    }
}

fn cases(few: u64) -> u64 {
    let asked = std::env::var("CAPT_FUZZ_CASES").ok().and_then(|cases| cases.parse::<u64>().ok());
    asked.map_or(few, |asked| asked / (CASES / few))
}

#[test]
fn states_are_read_or_refused() {
    let mut fuzz = Fuzz::new();
    for _ in 0..cases(CASES) {
        let whole = fuzz.one(&STATES);
        let spoilt = fuzz.spoilt(whole);
        let Ok(state) = State::read(&spoilt) else { continue };
        let _ = (state.builtin_only(), state.is_empty());
        let seal = Seal::of(&state, &spoilt);
        assert_eq!(seal.check(Some((&state, &spoilt))), Ok(()));
        assert_eq!(seal.check(None).is_ok(), state.is_empty(), "what is gone is no empty state");
        // What was recorded of the whole one is not taken for a state that differs in anything, but for a newer one.
        if let Ok(before) = State::read(whole)
            && spoilt != whole
            && state.serial <= before.serial
        {
            Seal::of(&before, whole).check(Some((&state, &spoilt))).expect_err("it was altered");
        }
    }
}

#[test]
fn records_are_as_they_were_or_refused() {
    let mut fuzz = Fuzz::new();
    let lab = tempfile::tempdir().expect("a folder");
    let workspace = WorkspaceId::new("n/w");
    let folder = WorkspaceFolder(lab.path().join(workspace.folder()));
    fs::create_dir_all(&folder.0).expect("a folder");
    let mut record = Record::new(workspace);
    record.touched = true;
    record.unsaved.insert("a".to_owned(), serde_json::from_str(r#"{"id":"b","gone":["c"]}"#).expect("JSON"));
    record.write(&folder).expect("written");
    let whole = fs::read(folder.record()).expect("there");
    let text = |record: &Record| serde_json::to_string(record).expect("JSON");
    let kept = record.kept(STATES[0].to_vec(), None);
    for _ in 0..cases(CASES_ON_DISK) {
        fs::write(folder.record(), fuzz.spoilt(&whole)).expect("written");
        if let Ok(read) = Record::read(&folder) {
            let read = read.expect("the file is there");
            assert_eq!(text(&read), text(&record));
        }
        // A state backend's own checks come before: here it is enough that nothing panics.
        let spoilt = Kept {
            record: fuzz.spoilt(&kept.record),
            inputs: if fuzz.below(2) == 0 { Vec::new() } else { fuzz.spoilt(b"{\"module\":{}}") },
            state: Vec::new(),
            running: None,
        };
        let _ = Record::from_kept(&spoilt);
    }
}

#[test]
fn no_path_leads_out_of_a_folder() {
    let mut fuzz = Fuzz::new();
    let lab = tempfile::tempdir().expect("a folder");
    let at = |name: &str| lab.path().join(name);
    fs::create_dir(at("out")).expect("a folder");
    fs::write(at("out/token"), "secret").expect("written");
    let dir = Dir::make(&at("in")).expect("made");
    let outside = at("out").into_os_string();
    for _ in 0..cases(CASES_ON_DISK) {
        let parts: [&[u8]; 10] =
            [b"a", b"b", b"c", b"..", b".", b"", b"token", b"..\0", b"\xff", outside.as_bytes()];
        let path: Vec<&[u8]> = (0..=fuzz.below(4)).map(|_| fuzz.one(&parts)).collect();
        let path = path.join(&b'/');
        let path = Path::new(OsStr::from_bytes(&path));
        let target = Path::new(fuzz.one(&["../out", "../out/token", "..", "/", "../../out", "a", "."]));
        match fuzz.below(8) {
            0 | 1 => drop(dir.link(path, target)),
            2 => drop(dir.write(path, b"new")),
            3 => drop(dir.make_below(path)),
            4 => drop(dir.remove(path)),
            5 => drop(dir.below(path)),
            6 => drop(dir.stamp(path)),
            _ => {
                for read in [dir.read(path, 100).ok().flatten(), dir.read_within(path, 100).ok()] {
                    assert_ne!(read.as_deref(), Some(&b"secret"[..]), "{}", path.display());
                }
            }
        }
        assert_eq!(fs::read(at("out/token")).expect("there"), b"secret", "{}", path.display());
        assert_eq!(fs::read_dir(at("out")).expect("there").count(), 1, "{}", path.display());
        assert_eq!(fs::read_dir(lab.path()).expect("there").count(), 2, "{}", path.display());
    }
}
