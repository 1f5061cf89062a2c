//! The Kubernetes kinds of CAPT: types, CRDs, conditions, names and validation rules.
//!
//! Everything a user writes and reads is here, and nothing that acts on it: no IO, no clock, no client.
//! A doc comment on a field is its description in the CRD, so it is written for the reader of
//! `kubectl explain`; a rule stands beside the field it guards and its message says what to write instead.
//!
//! | Module | Contents |
//! |---|---|
//! | [`workspace`] | `WorkspaceTemplate`, `WorkspaceTemplateApply`, `WorkspaceProviderConfig` |
//! | [`cluster`] | `CAPTCluster`, `CAPTControlPlane` and their templates |
//! | [`machine`] | `CaptMachine`, its template, set and deployment, `NodeGroup` |
//! | [`grant`] | `ReferenceGrant`: references across namespaces, and when they are granted |
//! | [`conditions`] | condition types and reasons |
//! | [`names`] | groups, labels, annotations, finalizers |
//! | [`crd`] | the thirteen CRDs as a cluster installs them |

#![warn(missing_docs)]
// Each printer column has a name, a type and a path; clippy takes the second column for a repetition.
#![allow(clippy::duplicated_attributes)]

pub mod cluster;
pub mod conditions;
pub mod crd;
mod fragments;
pub mod grant;
pub mod machine;
pub mod names;
pub mod refs;
pub mod workspace;

pub use crd::{crds, kinds};
