//! An authenticated request as the handlers see it: its parts, and the budgets that it counts against.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, header};

use super::body::{ItemBuilder, PendingItems};
use super::response_budget::{self, ObjectRefs, TargetRef, TextRef};
use crate::authn::User;
use crate::request::query::Query;
use crate::request::write::{Warnings, WriteKind, WriteOptions};
use crate::secure_serving::{BudgetShare, DecodePermit, UserBudget};
use crate::status::ApiError;
use crate::storage::Target;
use crate::store::Object;

/// An authenticated request.
pub(super) struct Call<'a> {
    pub method: &'a http::Method,
    pub query: Query,
    pub headers: &'a HeaderMap,
    pub body: &'a Bytes,
    pub user: &'a User,
    /// The user whose budgets the request counts against: the impersonator, where there is one.
    pub budget_user: &'a User,
    pub warnings: Warnings,
    /// Held while the decoded body is in memory.
    pub decode_permit: Mutex<Option<DecodePermit>>,
    /// The budget of objects that the response has yet to send.
    pub response_budget: &'a Arc<UserBudget>,
}

impl Call<'_> {
    pub fn header(&self, name: header::HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub fn user_agent(&self) -> &str {
        self.header(header::USER_AGENT).unwrap_or_default()
    }

    /// Parses the options of a write; its warnings go to the response.
    pub fn write_options(&self, write: WriteKind) -> Result<WriteOptions, ApiError> {
        let options = WriteOptions::parse(&self.query, write)?;
        // Nothing limits the writes of administrators, so nothing has to check them.
        let user = (!self.user.is_master()).then(|| Arc::new(self.user.clone()));
        Ok(WriteOptions { warnings: self.warnings.clone(), user, ..options })
    }

    /// Lets another request decode its body: this one has decoded its own to something small.
    pub fn release_decode_permit(&self) {
        self.decode_permit.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// References to objects that the response has yet to send.
    pub fn hold_objects(&self, objects: Vec<Arc<Object>>) -> ObjectRefs {
        ObjectRefs::new(self.response_budget, self.budget_user, objects)
    }

    /// Reference to a text of the catalogue that the response has yet to send.
    pub fn hold_text(&self, text: &Arc<Bytes>) -> TextRef {
        TextRef::new(self.response_budget, self.budget_user, text)
    }

    /// Objects of a target that become a list while the client reads it.
    pub fn hold_items(&self, target: &Target, objects: Vec<Arc<Object>>) -> PendingItems {
        let (budget, user) = (Arc::clone(self.response_budget), self.budget_user.in_budgets());
        let builder = ItemBuilder {
            target: TargetRef::new(self.response_budget, self.budget_user, target),
            grow: Box::new(move |bytes| response_budget::take_bytes(&budget, &user, bytes).ok().flatten()),
        };
        PendingItems { objects: self.hold_objects(objects), builder }
    }

    /// Takes a share of the budget for bytes of the request that are kept as long as its response lasts; a few bytes need none.
    pub fn take_bytes(&self, bytes: usize) -> Result<Option<BudgetShare>, ApiError> {
        response_budget::take_bytes(self.response_budget, self.budget_user, bytes)
    }
}
