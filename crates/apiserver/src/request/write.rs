//! The options of creates, updates and patches.

use std::sync::Arc;

use serde_json::Value;

pub use super::warnings::Warnings;
use super::{accept::PatchType, body::Repeated, query::Query};
use crate::authn::User;
use crate::status::{ApiError, Cause, go};

/// The longest name of a field manager, in bytes.
const MANAGER_LIMIT: usize = 128;

/// The treatment of unknown and duplicate fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FieldValidation {
    /// They are dropped.
    Ignore,
    /// They are dropped, and the answer has warnings.
    #[default]
    Warn,
    /// They are an error.
    Strict,
}

/// The kind of a write, by its HTTP method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH.
    Patch(PatchType),
}

/// The options of a write.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Do everything but keep it.
    pub dry_run: bool,
    /// The field manager, where the request names it.
    pub field_manager: Option<String>,
    /// The treatment of unknown and duplicate fields.
    pub field_validation: FieldValidation,
    /// Take fields from other managers.
    pub force: bool,
    /// Whose rights limit what may be written; the server itself has no limits.
    pub user: Option<Arc<User>>,
    /// Duplicate fields of the body.
    pub repeated: Repeated,
    /// True if the write comes through `/scale`.
    pub through_scale: bool,
    /// Warnings for the client, whether the write succeeds or not.
    pub warnings: Warnings,
}

impl WriteOptions {
    /// The options of a request.
    pub fn parse(query: &Query, write: WriteKind) -> Result<Self, ApiError> {
        let manager = query.text("fieldManager");
        let force = query.flag("force");
        let mut causes = Vec::new();
        match write {
            WriteKind::Patch(PatchType::Apply) if manager.is_none() => {
                causes.push(Cause::required("fieldManager", "is required for apply patch"));
            }
            WriteKind::Patch(PatchType::Json | PatchType::Merge | PatchType::Strategic)
                if force.is_some() =>
            {
                causes.push(Cause::forbidden("force", "may not be specified for non-apply patch"));
            }
            WriteKind::Create | WriteKind::Update | WriteKind::Patch(_) => {}
        }
        causes.extend(wrong_manager(manager.unwrap_or_default()));
        let dry_run: Vec<_> = query.all("dryRun").collect();
        causes.extend(wrong_dry_run(&dry_run));
        let validation = query.get("fieldValidation").unwrap_or_default();
        let field_validation = match validation {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                causes.push(Cause::not_supported("fieldValidation", &Value::from(other), &supported));
                FieldValidation::Strict
            }
        };
        if !causes.is_empty() {
            let kind = match write {
                WriteKind::Create => "CreateOptions",
                WriteKind::Update => "UpdateOptions",
                WriteKind::Patch(_) => "PatchOptions",
            };
            return Err(ApiError::invalid_options(kind, causes));
        }
        Ok(Self {
            dry_run: !dry_run.is_empty(),
            field_manager: manager.map(str::to_owned),
            field_validation,
            force: force.unwrap_or(false),
            user: None,
            repeated: Repeated::Nothing,
            through_scale: false,
            warnings: Warnings::default(),
        })
    }

    /// The field manager: that of the request, or else the program that the user agent names.
    pub fn manager(&self, user_agent: &str) -> String {
        if let Some(manager) = &self.field_manager {
            return manager.clone();
        }
        let program = user_agent.split('/').next().unwrap_or_default();
        let mut manager = String::new();
        for c in program.chars().filter(|c| go::is_printable(*c)) {
            if manager.len() + c.len_utf8() > MANAGER_LIMIT {
                break;
            }
            manager.push(c);
        }
        manager
    }
}

/// Each character that is wrong is told with the whole name, so that those of one that is too long are not.
fn wrong_manager(manager: &str) -> Vec<Cause> {
    let field = "fieldManager";
    if manager.len() > MANAGER_LIMIT {
        return vec![Cause::too_long(field, MANAGER_LIMIT)];
    }
    let wrong = manager.char_indices().filter(|(_, c)| !go::is_printable(*c));
    let cause = |(position, c)| {
        let detail = format!("invalid character U+{:04X} (at position {position})", u32::from(c));
        Cause::invalid(field, &Value::from(manager), &detail)
    };
    wrong.map(cause).collect()
}

/// The only dry run is that of all stages.
pub(super) fn wrong_dry_run(values: &[&str]) -> Option<Cause> {
    let wrong = values.iter().any(|value| *value != "All");
    wrong.then(|| Cause::not_supported("dryRun", &Value::from(values.to_vec()), &["All"]))
}
