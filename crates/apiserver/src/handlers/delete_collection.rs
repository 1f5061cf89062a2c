//! `deletecollection`: every selected object of a collection.

use std::sync::{Arc, LazyLock};

use http::{Response, StatusCode};

use super::delete::delete_options;
use super::list::list_options;
use super::{Api, Body, Call, response};
use crate::secure_serving::UserBudget;
use crate::status::{self, ApiError};
use crate::storage::{Listed, Target};

/// Collections that one user may delete at once: each deletion holds the keys of its whole collection.
static CONCURRENT: LazyLock<Arc<UserBudget>> = LazyLock::new(|| UserBudget::of_each(4));

impl Api {
    /// Deletes the selected objects of a collection and answers with their list.
    pub(super) async fn delete_collection(
        &self,
        target: &Target,
        call: &Call<'_>,
    ) -> Result<Response<Body>, ApiError> {
        let list = list_options(target, call)?;
        let options = delete_options(call)?;
        let _share = CONCURRENT.take(call.budget_user, 1).ok_or_else(ApiError::busy)?;
        let mut listed = self.storage.list(target, &list)?;
        let keys = listed.keys();
        let held = call.hold_objects(std::mem::take(&mut listed.items));
        self.storage.delete_each(target, keys, &options).await?;
        match held.all() {
            Some(items) => response::list(target, call, Listed { items, ..listed }),
            // An incomplete list would say that the missing objects were not deleted.
            None => response::object(&target.served, call, StatusCode::OK, &status::done()),
        }
    }
}
