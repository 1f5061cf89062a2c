//! A hash that is the same in every build and on every machine: names and annotations hold it.

use serde::Serialize;

/// No vowels and no look-alikes, as Kubernetes has it: hashes spell no words.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// 27^10 values; with [`crate::names::set_name`]'s limit a machine's name fits 63 characters.
const LENGTH: usize = 10;

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// FNV-1a, then mixed so that near inputs differ everywhere.
pub fn number(bytes: &[u8]) -> u64 {
    let folded = bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
    mix(folded)
}

/// A number from a seed and a text: the order in which [`capt_api::machine::DeletePolicy::Random`] takes machines.
pub fn seeded(seed: u64, text: &str) -> u64 {
    mix(number(text.as_bytes()) ^ mix(seed))
}

/// Ten characters that stand for a value.
pub fn text<T: Serialize>(value: &T) -> String {
    let bytes = serde_json::to_vec(value).expect("types of the API are JSON");
    let mut rest = number(&bytes);
    let mut out = String::with_capacity(LENGTH);
    for _ in 0..LENGTH {
        let base = ALPHABET.len() as u64;
        let index = usize::try_from(rest % base).expect("less than 27");
        out.push(char::from(ALPHABET[index]));
        rest /= base;
    }
    out
}

fn mix(mut value: u64) -> u64 {
    value ^= value >> 30;
    value = value.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value ^= value >> 27;
    value = value.wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_never_changes() {
        // Names of existing sets hold it: a change of this line would roll every fleet.
        assert_eq!(text(&("machine", 1)), "lwfmtxcpfh");
        assert_ne!(text(&("machine", 2)), text(&("machine", 1)));
    }

    #[test]
    fn a_seed_gives_another_order() {
        assert_ne!(seeded(1, "a"), seeded(2, "a"));
        assert_eq!(seeded(1, "a"), seeded(1, "a"));
    }
}
