//! An embedded, durable Kubernetes API, in one process and without etcd.
//!
//! It knows no CAPT kind: any kube-rs project can use it as its API on a laptop or in a test. Its rooms:
//!
//! | Room | What is in it |
//! |---|---|
//! | [`store`] | a durable, ordered, watchable map of objects |

#![warn(missing_docs)]

pub mod store;
