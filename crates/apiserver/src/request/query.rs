//! Query parameters, and the options of reads.
//!
//! Parameters are read as upstream reads them: the first value counts, unknown ones are ignored, a flag is set by
//! anything but `0` and `false`. Errors come in upstream's order: numbers, selectors, combinations, fields.

use std::time::Duration;

use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::{
    cursor::{self, Cursor},
    selector::{FieldSelector, LabelSelector},
};
use crate::status::{ApiError, Cause, go};

/// The parameters of a request, decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Parses what follows the question mark. Pairs that are badly encoded, or that a semicolon divides, are dropped.
    pub fn parse(raw: &str) -> Self {
        let pairs = raw.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
        let pairs = pairs.filter_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode(key)?, decode(value)?))
        });
        Self { pairs: pairs.collect() }
    }

    /// The first value of a parameter.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// The values of a parameter, in order.
    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.pairs.iter().filter(move |(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// The first value, where it is not empty.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key).filter(|value| !value.is_empty())
    }

    /// A flag that may be absent.
    pub fn flag(&self, key: &str) -> Option<bool> {
        self.get(key).map(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    /// A number that may be absent.
    pub fn integer(&self, key: &str) -> Result<Option<i64>, ApiError> {
        self.get(key).map(go::parse_int).transpose().map_err(ApiError::BadRequest)
    }

    /// The timeout of the request; `None` without one.
    pub fn timeout(&self) -> Result<Option<Duration>, ApiError> {
        let Some(given) = self.text("timeout") else { return Ok(None) };
        let nanoseconds = go::parse_duration(given).map_err(|error| {
            ApiError::BadRequest(format!("invalid timeout specified in the request URL - {error}"))
        })?;
        let wanted = u64::try_from(nanoseconds).ok().filter(|wanted| *wanted > 0);
        Ok(wanted.map(Duration::from_nanos))
    }

    /// Returns whether a person reads the answer: asked for, or the client is a browser or a command-line tool.
    pub fn pretty(&self, user_agent: &str) -> bool {
        match self.text("pretty") {
            Some(value) => matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True"),
            None => ["curl", "Wget", "Mozilla/5.0"].iter().any(|human| user_agent.starts_with(human)),
        }
    }
}

fn decode(text: &str) -> Option<String> {
    let escapes = text.bytes().filter(|b| *b == b'%').count();
    let spaced = text.replace('+', " ");
    let decoded: Vec<u8> = percent_decode_str(&spaced).collect();
    let well_formed = text.len() - decoded.len() == 2 * escapes;
    well_formed.then(|| String::from_utf8_lossy(&decoded).into_owned())
}

/// The meaning of `resourceVersion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionMatch {
    /// This very revision.
    Exact,
    /// This revision or a later one.
    NotOlderThan,
}

/// The options of a list, a watch, or the list behind a deletecollection.
#[derive(Clone, Debug, PartialEq)]
pub struct ListOptions {
    /// The label selector.
    pub labels: LabelSelector,
    /// The field selector; not yet checked against the resource, see [`FieldSelector::check`].
    pub fields: FieldSelector,
    /// Follow changes.
    pub watch: bool,
    /// Send bookmarks now and then, and one at the end of the initial events.
    pub bookmarks: bool,
    /// Begin a watch with the present state. Set for watches from nowhere, too.
    pub initial_events: bool,
    /// End a watch after this time.
    pub timeout: Option<Duration>,
    /// At most so many items; `None` for all.
    pub limit: Option<u64>,
    /// The continue token, as the client sent it.
    pub continue_token: Option<String>,
    /// As the client gave it.
    pub resource_version: Option<String>,
    /// The meaning of the resource version.
    pub version_match: Option<VersionMatch>,
}

/// At which revision a list is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListFrom {
    /// The latest.
    Latest,
    /// Whatever is at hand.
    Any,
    /// This one or a later one.
    NotOlderThan(u64),
    /// This one.
    Exact(u64),
    /// The decoded continue token.
    Continue(Cursor),
}

impl ListOptions {
    /// The options of a request. `watch` in the query is honoured; a path with `/watch/` sets it afterwards.
    pub fn parse(query: &Query) -> Result<Self, ApiError> {
        let timeout = query.integer("timeoutSeconds")?;
        let limit = query.integer("limit")?;
        let labels = LabelSelector::parse(query.get("labelSelector").unwrap_or_default());
        let labels = labels.map_err(|error| ApiError::BadRequest(error.to_string()))?;
        let fields = FieldSelector::parse(query.get("fieldSelector").unwrap_or_default());
        let fields = fields.map_err(|error| ApiError::BadRequest(error.to_string()))?;

        let watch = query.flag("watch").unwrap_or(false);
        let version = query.text("resourceVersion");
        let mut given_match = query.text("resourceVersionMatch");
        let mut initial_events = query.flag("sendInitialEvents");
        // A watch from nowhere has always begun with the present state.
        if watch && initial_events.is_none() && given_match.is_none() && matches!(version, None | Some("0")) {
            (initial_events, given_match) = (Some(true), Some("NotOlderThan"));
        }
        let causes = if watch {
            wrong_watch(given_match, initial_events, query)
        } else {
            wrong_list(given_match, initial_events, query)
        };
        if !causes.is_empty() {
            return Err(ApiError::invalid_options("ListOptions", causes));
        }
        Ok(Self {
            labels,
            fields,
            watch,
            bookmarks: query.flag("allowWatchBookmarks").unwrap_or(false),
            initial_events: initial_events.unwrap_or(false),
            timeout: timeout.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs),
            limit: limit.and_then(|limit| u64::try_from(limit).ok()).filter(|limit| *limit > 0),
            continue_token: query.text("continue").map(str::to_owned),
            resource_version: version.map(str::to_owned),
            version_match: given_match.map(|given| match given {
                "Exact" => VersionMatch::Exact,
                _ => VersionMatch::NotOlderThan,
            }),
        })
    }

    /// An estimate of the bytes that the selectors take in memory.
    pub fn selectors_bytes(&self) -> usize {
        self.labels.bytes() + self.fields.bytes()
    }

    /// Adds the name in the path of a watch on one object.
    pub fn only(&mut self, name: &str) -> Result<(), ApiError> {
        if self.fields.is_empty() {
            self.fields = FieldSelector::name(name);
        } else if self.fields.exact("metadata.name") != Some(name) {
            let text = "fieldSelector metadata.name doesn't match requested name";
            return Err(ApiError::BadRequest(text.to_owned()));
        }
        Ok(())
    }

    /// At which revision to list.
    pub fn list_from(&self) -> Result<ListFrom, ApiError> {
        let version = self.resource_version.as_deref();
        if let Some(token) = &self.continue_token {
            let cursor = cursor::decode(token);
            let cursor =
                cursor.map_err(|error| ApiError::BadRequest(format!("invalid continue token: {error}")))?;
            if !matches!(version, None | Some("0")) {
                let text = "specifying resource version is not allowed when using continue";
                return Err(ApiError::BadRequest(text.to_owned()));
            }
            return Ok(ListFrom::Continue(cursor));
        }
        let Some(version) = version else { return Ok(ListFrom::Latest) };
        let revision = parse_version(version);
        let revision =
            revision.map_err(|error| ApiError::BadRequest(format!("invalid resource version: {error}")))?;
        Ok(match (revision, self.version_match) {
            (0, _) => ListFrom::Any,
            (revision, Some(VersionMatch::Exact)) => ListFrom::Exact(revision),
            // Before resourceVersionMatch, a limit made the revision exact.
            (revision, None) if self.limit.is_some() => ListFrom::Exact(revision),
            (revision, _) => ListFrom::NotOlderThan(revision),
        })
    }

    /// After which revision to watch; 0 and none mean from the present state.
    pub fn watch_from(&self) -> Result<Option<u64>, ApiError> {
        version_of_read(self.resource_version.as_deref())
    }
}

fn wrong_list(given: Option<&str>, initial_events: Option<bool>, query: &Query) -> Vec<Cause> {
    let field = "resourceVersionMatch";
    let version = query.text("resourceVersion");
    let mut causes = Vec::new();
    if let Some(given) = given {
        if version.is_none() {
            causes.push(Cause::forbidden(
                field,
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ));
        }
        if query.text("continue").is_some() {
            causes
                .push(Cause::forbidden(field, "resourceVersionMatch is forbidden when continue is provided"));
        }
        if !matches!(given, "Exact" | "NotOlderThan") {
            causes.push(Cause::not_supported(field, &Value::from(given), &["Exact", "NotOlderThan", ""]));
        }
        if given == "Exact" && version == Some("0") {
            let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            causes.push(Cause::forbidden(field, detail));
        }
    }
    if initial_events.is_some() {
        causes.push(Cause::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    causes
}

fn wrong_watch(given: Option<&str>, initial_events: Option<bool>, query: &Query) -> Vec<Cause> {
    let field = "resourceVersionMatch";
    let mut causes = Vec::new();
    if initial_events.is_some() && given != Some("NotOlderThan") {
        let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        causes.push(Cause::forbidden(field, detail));
    }
    if let Some(given) = given {
        if initial_events.is_none() {
            let detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            causes.push(Cause::forbidden(field, detail));
        }
        if given != "NotOlderThan" {
            causes.push(Cause::not_supported(field, &Value::from(given), &["NotOlderThan"]));
        }
        if query.text("continue").is_some() {
            causes
                .push(Cause::forbidden(field, "resourceVersionMatch is forbidden when continue is provided"));
        }
    }
    causes
}

fn parse_version(version: &str) -> Result<u64, String> {
    go::parse_uint(version).map_err(|error| {
        let cause = Cause::invalid("resourceVersion", &Value::from(version), &error);
        format!("{}: {}", cause.field, cause.message)
    })
}

/// Upstream does not classify this one, and answers 500.
fn version_of_read(version: Option<&str>) -> Result<Option<u64>, ApiError> {
    version.map(parse_version).transpose().map_err(ApiError::Unclassified)
}

/// The options of a get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct GetOptions {
    /// The object as of this revision or later; `None` for the latest, 0 for any.
    pub not_older_than: Option<u64>,
}

impl GetOptions {
    /// The options of a request.
    pub fn parse(query: &Query) -> Result<Self, ApiError> {
        if query.flag("export") == Some(true) {
            let text = "the export parameter, deprecated since v1.14, is no longer supported";
            return Err(ApiError::BadRequest(text.to_owned()));
        }
        Ok(Self { not_older_than: version_of_read(query.text("resourceVersion"))? })
    }
}
