//! Chained checksum of commits.
//!
//! Every commit, whether it appends or compacts, gets a number, the sum of all rows that the table then has, and a hash
//! over these, the content of the rows it appended and the hash of the commit before. It is stored within the transaction: with the last row that was
//! appended, which is on a page that is written anyway, or with the compaction.
//!
//! The sum tells whether the rows that were read are all there are; number and hash, whether the database is the one
//! that the [head record](super::head) names.

use sha2::{Digest as _, Sha256};

use crate::store::key::Revision;

/// Length of a hash: enough for two histories never to have the same one.
pub(super) const HASH: usize = 16;
/// Length of an encoded commit: number, hash, sum of rows, checksum of these.
pub(super) const ENCODED: usize = 8 + HASH + 8 + 4;

/// Sum over the rows of a table in any order, to which rows are added and from which they are taken. A row never changes:
/// its revision stands for it, and its own checksum for its content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RowSum(u64);

impl RowSum {
    pub(super) fn add(&mut self, revision: Revision) {
        self.0 = self.0.wrapping_add(mix(revision.get()));
    }

    pub(super) fn remove(&mut self, revision: Revision) {
        self.0 = self.0.wrapping_sub(mix(revision.get()));
    }
}

/// The finalizer of SplitMix64: spreads numbers over all bits, so that they do not cancel out.
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// One link of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Commit {
    pub(super) number: u64,
    pub(super) hash: [u8; HASH],
    pub(super) rows: RowSum,
}

impl Commit {
    /// The begin of a chain, for a table as it is.
    pub(super) fn first(revision: Revision, compacted: Revision, rows: RowSum) -> Self {
        Self { number: 0, hash: hash([0; HASH], [0, revision.get(), compacted.get(), rows.0, 0]), rows }
    }

    /// The commit after this one, which left the table so; `content` is a checksum of the rows it appended.
    pub(super) fn next(&self, revision: Revision, compacted: Revision, rows: RowSum, content: u32) -> Self {
        let number = self.number + 1;
        let parts = [number, revision.get(), compacted.get(), rows.0, u64::from(content)];
        Self { number, hash: hash(self.hash, parts), rows }
    }

    pub(super) fn encode(&self) -> [u8; ENCODED] {
        let Self { number, hash, rows } = self;
        let mut bytes = [0; ENCODED];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        bytes[8..8 + HASH].copy_from_slice(hash);
        bytes[8 + HASH..ENCODED - 4].copy_from_slice(&rows.0.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..ENCODED - 4]);
        bytes[ENCODED - 4..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads an encoded commit; `None` where it is damaged.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (content, checksum) = bytes.split_last_chunk::<4>()?;
        if crc32fast::hash(content) != u32::from_le_bytes(*checksum) {
            return None;
        }
        let (number, rest) = content.split_first_chunk::<8>()?;
        let (hash, rows) = rest.split_first_chunk::<HASH>()?;
        let rows = RowSum(u64::from_le_bytes(rows.try_into().ok()?));
        Some(Self { number: u64::from_le_bytes(*number), hash: *hash, rows })
    }
}

fn hash(before: [u8; HASH], parts: [u64; 5]) -> [u8; HASH] {
    let mut hasher = Sha256::new();
    hasher.update(before);
    for part in parts {
        hasher.update(part.to_le_bytes());
    }
    let mut hash = [0; HASH];
    hash.copy_from_slice(&hasher.finalize()[..HASH]);
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_read_back_and_damage_to_it_is_found() {
        let mut rows = RowSum::default();
        rows.add(Revision::new(7));
        let first = Commit::first(Revision::START, Revision::START, RowSum::default());
        let commit = first.next(Revision::new(7), Revision::START, rows, 1);
        assert_ne!(commit, first.next(Revision::new(7), Revision::START, rows, 2), "other content");
        let encoded = commit.encode();
        assert_eq!(Commit::decode(&encoded), Some(commit));
        for bit in 0..ENCODED * 8 {
            let mut flipped = encoded;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Commit::decode(&flipped), None, "bit {bit}");
        }
        for length in 0..ENCODED {
            assert_eq!(Commit::decode(&encoded[..length]), None, "{length} bytes");
        }
    }

    #[test]
    fn a_sum_of_rows_has_no_order_and_misses_none() {
        let sum = |rows: &[u64]| {
            let mut sum = RowSum::default();
            for revision in rows {
                sum.add(Revision::new(*revision));
            }
            sum
        };
        let mut all = sum(&[2, 3, 4]);
        assert_eq!(all, sum(&[4, 2, 3]));
        assert_ne!(all, sum(&[2, 3]));
        assert_ne!(all, sum(&[1, 4, 4]));
        all.remove(Revision::new(4));
        assert_eq!(all, sum(&[2, 3]));
    }
}
