//! A short name for the content of a document.

use base64::Engine as _;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The hash of the version that objects of a kind are stored in, as kube-apiserver computes it: clients that migrate stored
/// objects notice a change by it.
pub fn storage_version_hash(group: &str, version: &str, kind: &str) -> String {
    let hash = Sha256::digest(format!("{group}/{version}/{kind}"));
    base64::engine::general_purpose::STANDARD.encode(&hash[..8])
}

/// A hash of a document, the same in every process: the `ETag` of a discovery document (in quotes there), and the
/// `hash` in the address of an OpenAPI document, by which clients cache it on disk.
///
/// FNV-1a with 128 bits: enough to tell documents of our own making apart; it is no protection against forgery.
pub fn content_hash(document: &Value) -> String {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let hash =
        document.to_string().bytes().fold(OFFSET, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME));
    format!("{hash:032X}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn storage_versions_have_the_hashes_of_kubernetes() {
        // As a server of Kubernetes shows them in /api/v1 and /apis/coordination.k8s.io/v1.
        assert_eq!(storage_version_hash("", "v1", "ConfigMap"), "qFsyl6wFWjQ=");
        assert_eq!(storage_version_hash("coordination.k8s.io", "v1", "Lease"), "gqkMMb/YqFM=");
    }

    #[test]
    fn hashes_tell_documents_apart_and_stay_the_same() {
        assert_eq!(content_hash(&json!({"a": 1})), content_hash(&json!({"a": 1})));
        assert_ne!(content_hash(&json!({"a": 1})), content_hash(&json!({"a": 2})));
        // Pinned: clients keep documents on disk under this name.
        assert_eq!(content_hash(&json!(null)), "692D4A7BD3757277B806E961FEF351C4");
    }
}
