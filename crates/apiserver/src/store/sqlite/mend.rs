//! A write-ahead log as SQLite would read it without the damage.
//!
//! Checksums of frames are chained, so SQLite reads nothing behind one that does not match. What is behind it may well
//! be good, and often has a newer version of the very page that was damaged. Here every frame of the log gets the
//! checksum of what it is; whether the rows in it are good is for their own checksums to tell.
//!
//! The form is that of SQLite's documentation ("The WAL-Mode File Format"), with pages of the one size that databases of
//! this program have.

use super::files::PAGE;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
const FRAME: usize = FRAME_HEADER + PAGE as usize;
/// The last bit says in which order of bytes checksums read: little-endian.
const MAGIC: u32 = 0x377f_0682;
const VERSION: u32 = 3_007_000;

/// Frames that carry the salt belong to the log; those behind them are left from before it was last begun anew.
type Salt = [u8; 8];

/// Makes a log of all frames that belong to this one; `None` where there is none.
pub(super) fn mend(log: &[u8]) -> Option<Vec<u8>> {
    let (header, frames) = log.split_at_checked(HEADER)?;
    let frames: Vec<&[u8]> = frames.chunks_exact(FRAME).collect();
    let salt = salt_of_most(header, &frames)?;
    let mut mended = Vec::with_capacity(log.len());
    for number in [MAGIC, VERSION, PAGE] {
        mended.extend_from_slice(&number.to_be_bytes());
    }
    mended.extend_from_slice(&header[12..16]);
    mended.extend_from_slice(&salt);
    let mut sum = Sum::default();
    sum.update(&mended);
    sum.write(&mut mended);
    for frame in &frames[..count(&frames, salt)] {
        // No page: SQLite would take it for the end.
        if frame[..4] == [0; 4] {
            continue;
        }
        let (place, page) = (&frame[..8], &frame[FRAME_HEADER..]);
        sum.update(place);
        sum.update(page);
        mended.extend_from_slice(place);
        mended.extend_from_slice(&salt);
        sum.write(&mut mended);
        mended.extend_from_slice(page);
    }
    Some(mended)
}

fn salt(bytes: &[u8]) -> Option<Salt> {
    bytes.first_chunk().copied()
}

/// The salt that two of the header and the first frames agree on, as one of them may be damaged.
fn salt_of_most(header: &[u8], frames: &[&[u8]]) -> Option<Salt> {
    let first = frames.iter().take(2).map(|frame| salt(&frame[8..]));
    let known: Vec<Salt> = [salt(&header[16..])].into_iter().chain(first).flatten().collect();
    let agreed = known.iter().find(|one| known.iter().filter(|other| other == one).count() > 1);
    agreed.or(known.first()).copied()
}

/// How many frames belong to the log: one with another salt is damaged if the next one has the right one again.
fn count(frames: &[&[u8]], of: Salt) -> usize {
    let mut end = 0;
    for (number, frame) in frames.iter().enumerate() {
        if salt(&frame[8..]) == Some(of) {
            end = number + 1;
        } else if number > end {
            break;
        }
    }
    end
}

/// SQLite's checksum over the log up to some point.
#[derive(Clone, Copy, Default)]
struct Sum(u32, u32);

impl Sum {
    fn update(&mut self, bytes: &[u8]) {
        let words = bytes.as_chunks::<4>().0;
        for [one, other] in words.as_chunks::<2>().0 {
            self.0 = self.0.wrapping_add(u32::from_le_bytes(*one)).wrapping_add(self.1);
            self.1 = self.1.wrapping_add(u32::from_le_bytes(*other)).wrapping_add(self.0);
        }
    }

    fn write(self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.0.to_be_bytes());
        to.extend_from_slice(&self.1.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever a log is, it is read, and made a log that mending leaves as it is.
        #[test]
        fn any_bytes_are_mended(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            frames in 0_usize..4,
            salts in prop::collection::vec(any::<bool>(), 5),
        ) {
            let mut log = bytes;
            log.resize(log.len() + frames * FRAME, 7);
            for (frame, same) in (0..frames).zip(salts) {
                if same && log.len() > HEADER + frame * FRAME + 16 {
                    let salt: Vec<u8> = log.get(16..24).unwrap_or_default().to_vec();
                    let at = HEADER + frame * FRAME + 8;
                    log[at..at + salt.len()].copy_from_slice(&salt);
                }
            }
            let mended = mend(&log);
            prop_assert_eq!(mended.is_none(), log.len() < HEADER);
            if let Some(mended) = mended {
                prop_assert!(mended.len() <= log.len());
                prop_assert_eq!(mend(&mended), Some(mended));
            }
        }
    }
}
