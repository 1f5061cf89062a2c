//! Runs that are only imagined: each has succeeded the moment it is ordered, and no process and no file tells of it. So what
//! stands around an engine can be measured and tested with thousands of workspaces.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use jiff::Timestamp;

use super::inner::{Inner, run_id};
use crate::{
    inputs::Revision,
    order::{Operation, Order, RunId},
    state::{Output, Outputs},
    view::{Finished, Outcome},
};

/// Gives the outputs that a workspace has after an imagined run.
pub type Imagine = Arc<dyn Fn(&Order) -> BTreeMap<String, Output> + Send + Sync>;

impl Inner {
    pub(super) fn imagine(&self, imagine: &Imagine, order: &Order, revision: Option<Revision>) -> RunId {
        let outputs = imagine(order);
        let now = Timestamp::now();
        let mut table = self.table();
        table.orders += 1;
        let id = run_id(table.orders);
        let view = &mut table.entry(&order.workspace).view;
        match order.operation {
            Operation::Apply | Operation::ApplyPlan(_) => {
                view.applied.clone_from(&revision);
                view.touched = true;
                view.outputs = outputs.into();
                view.resources = 1;
                view.serial += 1;
            }
            Operation::Destroy => {
                view.applied = None;
                view.touched = false;
                view.outputs = Outputs::default();
                view.resources = 0;
            }
            Operation::Plan | Operation::Refresh | Operation::Import { .. } => {}
        }
        view.last = Some(Finished {
            id: id.clone(),
            operation: order.operation.clone(),
            revision,
            started: now,
            ended: now,
            outcome: Outcome::Done,
            plan: None,
            drift: Vec::new(),
            warnings: Vec::new(),
            undeclared: Vec::new(),
            log: PathBuf::new(),
        });
        table.count(order.operation.as_str(), &Outcome::Done, Duration::ZERO);
        drop(table);
        self.changed(&order.workspace);
        id
    }
}
