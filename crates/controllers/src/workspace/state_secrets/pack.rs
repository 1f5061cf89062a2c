//! Packed form of a workspace in Secrets, in one piece, compressed: lengths of record and inputs, record, sealed inputs, state.
//!
//! Pieces of older versions have one length less, and inputs that are not sealed: anybody can have written those, so they are not taken.
//!
//! Whoever may write Secrets of a namespace wrote what is unpacked here, so it is bounded, in memory as in time of the threads
//! that others need: one is unpacked at a time, beside the runtime. What could not be unpacked again is not packed.

use std::io::{Read, Write};

use capt_terraform::state_backend::Kept;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::seal::Seal;

/// The largest record, and as large the inputs: an object of 3 MiB and what it refers to make them.
const RECORD: usize = 16 * 1024 * 1024;
/// The largest state: some ten times the largest that are known.
const STATE: usize = 64 * 1024 * 1024;
/// The largest of all packed: noise becomes no smaller, and hardly larger.
pub const LARGEST: usize = 2 * RECORD + STATE + 1024 * 1024;
/// In the first length: inputs follow on the record.
const SEALED: u64 = 1 << 63;

/// Whoever packs or unpacks.
static TURN: Semaphore = Semaphore::const_new(1);

/// Packs, where it can be unpacked again. Inputs need a seal.
pub async fn pack(kept: Kept, seal: Option<Seal>) -> Result<Vec<u8>, String> {
    in_turn(move || packed(&kept, seal.as_ref())).await
}

/// Unpacks, without inputs where the seal does not open them.
pub async fn unpack(bytes: Vec<u8>, seal: Option<Seal>) -> Result<Kept, String> {
    in_turn(move || unpacked(&bytes, seal.as_ref())).await
}

/// A state as other programs keep it, compressed or not.
pub async fn state(bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    in_turn(move || {
        if !bytes.starts_with(&[0x1f, 0x8b]) {
            return Ok(bytes);
        }
        let mut state = Vec::new();
        let largest = u64::try_from(STATE).unwrap_or(u64::MAX);
        GzDecoder::new(bytes.as_slice())
            .take(largest + 1)
            .read_to_end(&mut state)
            .map_err(|error| format!("its state cannot be unpacked: {error}"))?;
        bounded("state", state.len(), STATE)?;
        Ok(state)
    })
    .await
}

async fn in_turn<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let turn = TURN.acquire().await.map_err(|error| error.to_string())?;
    // Goes along: the work does not end where nobody waits for it any more.
    let work = move || {
        let _turn = turn;
        work()
    };
    spawn_blocking(work).await.map_err(|error| error.to_string())?
}

fn packed(kept: &Kept, seal: Option<&Seal>) -> Result<Vec<u8>, String> {
    bounded("record", kept.record.len(), RECORD)?;
    bounded("state", kept.state.len(), STATE)?;
    let inputs = match seal {
        Some(seal) if !kept.inputs.is_empty() => {
            bounded("inputs", kept.inputs.len(), RECORD)?;
            let inputs = seal.close(gzip(&[&kept.inputs]), [&kept.record, &kept.state])?;
            // Noise may have become larger.
            bounded("inputs", inputs.len(), RECORD)?;
            inputs
        }
        _ => Vec::new(),
    };
    let length = |bytes: &[u8]| u64::try_from(bytes.len()).unwrap_or_default();
    let lengths = [length(&kept.record) | SEALED, length(&inputs)].map(u64::to_le_bytes);
    Ok(gzip(&[lengths.as_flattened(), &kept.record, &inputs, &kept.state]))
}

fn gzip(parts: &[&[u8]]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    let written = parts.iter().try_for_each(|part| gzip.write_all(part));
    written.and_then(|()| gzip.finish()).expect("writing to memory cannot fail")
}

fn unpacked(bytes: &[u8], seal: Option<&Seal>) -> Result<Kept, String> {
    let mut gzip = GzDecoder::new(bytes);
    let first = length(&mut gzip)?;
    let inputs = if first & SEALED == 0 { 0 } else { length(&mut gzip)? };
    let record = part(&mut gzip, "record", first & !SEALED)?;
    let sealed = part(&mut gzip, "inputs", inputs)?;
    let mut state = Vec::new();
    gzip.take(STATE as u64 + 1).read_to_end(&mut state).map_err(damaged)?;
    bounded("state", state.len(), STATE)?;
    let inputs = seal.and_then(|seal| opened(seal, &sealed, [&record, &state])).unwrap_or_default();
    Ok(Kept { record, inputs, state, running: None })
}

fn length(from: &mut impl Read) -> Result<u64, String> {
    let mut length = [0; 8];
    from.read_exact(&mut length).map_err(damaged)?;
    Ok(u64::from_le_bytes(length))
}

fn part(from: &mut impl Read, what: &str, length: u64) -> Result<Vec<u8>, String> {
    bounded(what, usize::try_from(length).unwrap_or(usize::MAX), RECORD)?;
    let mut bytes = Vec::new();
    from.take(length).read_to_end(&mut bytes).map_err(damaged)?;
    if (bytes.len() as u64) < length {
        return Err(format!("a part is cut off: {what}"));
    }
    Ok(bytes)
}

/// Inputs that this controller sealed itself, and so in one piece.
fn opened(seal: &Seal, sealed: &[u8], beside: [&[u8]; 2]) -> Option<Vec<u8>> {
    let bytes = seal.open(sealed, beside)?;
    let mut inputs = Vec::new();
    GzDecoder::new(bytes.as_slice()).read_to_end(&mut inputs).ok()?;
    Some(inputs)
}

fn damaged(_: std::io::Error) -> String {
    "it cannot be unpacked".to_owned()
}

fn bounded(what: &str, size: usize, largest: usize) -> Result<(), String> {
    if size <= largest {
        return Ok(());
    }
    Err(format!("its {what} has more than {} MiB, the most that is kept in Secrets", largest / 1024 / 1024))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::super::seal::tests::seal;
    use super::*;

    /// Zeros, which pack a thousand to one.
    fn bomb(record: u64, zeros: usize) -> Vec<u8> {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(&record.to_le_bytes()).unwrap();
        let block = vec![0; 1024 * 1024];
        for start in (0..zeros).step_by(block.len()) {
            gzip.write_all(&block[..block.len().min(zeros - start)]).unwrap();
        }
        gzip.finish().unwrap()
    }

    #[test]
    fn what_is_packed_comes_out() {
        let ours = seal("tenant/a", 1);
        for (record, inputs, state) in
            [(0, 0, 0), (1000, 0, 0), (0, 0, 70_000), (1000, 0, 70_000), (1000, 5, 70_000), (0, 900_000, 0)]
        {
            let [record, inputs, state] =
                [(b'r', record), (b'i', inputs), (b's', state)].map(|(of, length)| vec![of; length]);
            let kept = Kept { record, inputs, state, running: None };
            let bytes = packed(&kept, Some(&ours)).unwrap();
            assert!(unpacked(&bytes, Some(&ours)).unwrap() == kept);
            // Without its key nothing is lost but the inputs.
            let rest = Kept { inputs: Vec::new(), ..kept };
            for seal in [None, Some(&seal("tenant/a", 2)), Some(&seal("tenant/b", 1))] {
                assert!(unpacked(&bytes, seal).unwrap() == rest);
            }
        }
    }

    #[test]
    fn inputs_that_nobody_sealed_are_not_taken() {
        let (record, state) = (r#"{"inputs":{}}"#.as_bytes(), &b"state"[..]);
        let old = gzip(&[&(record.len() as u64).to_le_bytes(), record, state]);
        let kept = unpacked(&old, Some(&seal("tenant/a", 1))).unwrap();
        assert!(kept == Kept { record: record.to_vec(), state: state.to_vec(), ..Kept::default() });
        let lengths = [record.len() as u64 | SEALED, 2].map(u64::to_le_bytes);
        let forged = gzip(&[lengths.as_flattened(), record, b"{}", state]);
        assert!(unpacked(&forged, Some(&seal("tenant/a", 1))).unwrap() == kept);
    }

    #[test]
    fn bombs_stay_packed() {
        let (record, state) = (RECORD as u64, STATE);
        let rows = [
            (0, state, Ok(())),
            (0, state + 1, Err("its state has more than 64 MiB")),
            (2, 3 * state, Err("its state has more than 64 MiB")),
            (record, RECORD, Ok(())),
            (record + 1, RECORD + 1, Err("its record has more than 16 MiB")),
            (u64::MAX, 10, Err("its record has more than 16 MiB")),
            (11, 10, Err("a part is cut off: record")),
        ];
        for (length, zeros, expected) in rows {
            let bytes = bomb(length, zeros);
            assert!(bytes.len() < 1024 * 1024, "a Secret holds it: {}", bytes.len());
            let said = unpacked(&bytes, None).map(drop);
            match expected {
                Ok(()) => assert_eq!(said, Ok(()), "{length} {zeros}"),
                Err(start) => assert!(said.unwrap_err().starts_with(start), "{length} {zeros}"),
            }
        }
        for bytes in [&b""[..], b"no gzip", &bomb(2, 1000)[..20]] {
            assert_eq!(unpacked(bytes, None).map(drop), Err("it cannot be unpacked".to_owned()));
        }
    }

    #[test]
    fn nothing_is_packed_that_stays_packed() {
        let large = Kept { state: vec![0; STATE + 1], ..Kept::default() };
        assert!(packed(&large, None).unwrap_err().starts_with("its state has more than 64 MiB"));
        let large = Kept { record: vec![0; RECORD + 1], ..Kept::default() };
        assert!(packed(&large, None).unwrap_err().starts_with("its record has more than 16 MiB"));
    }
}
