//! Continue tokens: where a list that came in pieces goes on.
//!
//! A token is opaque to clients: base64url of versioned JSON with the revision the list is read at and the key it
//! goes on from. It is as long-lived as the revision. Keys are relative to the collection, so that a forged token
//! reaches nothing the request itself could not reach.

use base64::{
    DecodeError, Engine as _,
    alphabet::URL_SAFE,
    engine::{GeneralPurpose, GeneralPurposeConfig, general_purpose::NO_PAD},
};
use serde_json::{Value, json};

use crate::json::{kind_of, syntax_error};

const VERSION: &str = "meta.k8s.io/v1";

/// As lenient about the last bits as Go is.
const BASE64: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, NO_PAD_LENIENT);
const NO_PAD_LENIENT: GeneralPurposeConfig = NO_PAD.with_decode_allow_trailing_bits(true);

/// The position at which a list continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The revision all pieces are read at; `None` for the latest, after the first one was compacted.
    pub revision: Option<u64>,
    /// The first key of the next piece, relative to the collection.
    pub start: String,
}

/// An invalid continue token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CursorError {
    /// Not base64, not JSON, or a key that leaves the collection.
    #[error("continue key is not valid: {0}")]
    Malformed(String),
    /// Made by another program.
    #[error("continue key is not valid: server does not recognize this encoded version {0}")]
    Version(String),
    /// No revision.
    #[error("continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)")]
    Revision,
    /// No key.
    #[error("continue key is not valid: encoded start key empty (version meta.k8s.io/v1)")]
    Start,
}

/// The token for a cursor.
pub fn encode(cursor: &Cursor) -> String {
    let revision = cursor.revision.map_or(Value::from(-1), Value::from);
    BASE64.encode(json!({"v": VERSION, "rv": revision, "start": cursor.start}).to_string())
}

/// The cursor in a token.
pub fn decode(token: &str) -> Result<Cursor, CursorError> {
    let bytes = BASE64.decode(token).map_err(|error| {
        let offset = match error {
            DecodeError::InvalidByte(offset, _) | DecodeError::InvalidLastSymbol { offset, .. } => offset,
            DecodeError::InvalidLength(length) => length.saturating_sub(1),
            DecodeError::InvalidPadding => token.len(),
        };
        CursorError::Malformed(format!("illegal base64 data at input byte {offset}"))
    })?;
    if let Some(error) = syntax_error(&bytes) {
        return Err(CursorError::Malformed(error));
    }
    let value: Value =
        serde_json::from_slice(&bytes).map_err(|error| CursorError::Malformed(error.to_string()))?;
    let version = text(&value, "v")?;
    let revision = match value.get("rv") {
        None | Some(Value::Null) => 0,
        Some(other) => other.as_i64().ok_or_else(|| mismatch(other, "rv", "int64"))?,
    };
    let start = text(&value, "start")?;
    if version != VERSION {
        return Err(CursorError::Version(version.to_owned()));
    }
    if revision == 0 {
        return Err(CursorError::Revision);
    }
    if start.is_empty() {
        return Err(CursorError::Start);
    }
    let key = start.strip_prefix('/').unwrap_or(start);
    if key.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(CursorError::Malformed(start.to_owned()));
    }
    Ok(Cursor { revision: u64::try_from(revision).ok(), start: key.to_owned() })
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str, CursorError> {
    match value.get(key) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(mismatch(other, key, "string")),
    }
}

fn mismatch(found: &Value, key: &str, wanted: &str) -> CursorError {
    let text = format!(
        "json: cannot unmarshal {} into Go struct field continueToken.{key} of type {wanted}",
        kind_of(found)
    );
    CursorError::Malformed(text)
}
