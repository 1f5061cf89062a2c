//! Hashes as text.

use sha2::{Digest as _, Sha256};

/// SHA-256 of parts, in hex. Each part goes in with its length: ("ab", "c") and ("a", "bc") differ.
pub(crate) fn sha256<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().fold(String::with_capacity(64), |mut hex, byte| {
        for digit in [byte >> 4, byte & 15] {
            hex.push(char::from_digit(digit.into(), 16).expect("a nibble is a hex digit"));
        }
        hex
    })
}
