//! An embedded, durable Kubernetes API, in one process and without etcd.
//!
//! It knows no CAPT kind: any kube-rs project can use it as its API on a laptop or in a test. Its rooms:
//!
//! | Room | What is in it |
//! |---|---|
//! | [`store`] | a durable, ordered, watchable map of objects |
//! | [`resource`], [`builtin`], [`registry`] | what is served: built-in resources, and those that CRDs define |
//! | [`object`], [`managed_fields`], [`patch`], [`bounds`] | what happens to an object on its way in, and how large it may become |
//! | [`storage`] | what each verb does, without HTTP |
//! | [`request`], [`status`], [`output`] | requests and answers as Kubernetes writes them |
//! | [`discovery`], [`openapi`] | how the server describes itself |
//! | [`handlers`] | HTTP in, HTTP out |
//! | [`authn`] | who a request is from; certificates and tokens |
//! | [`secure_serving`] | TLS, connections, limits, impersonation, audit |
//! | [`rbac`] | who may do what |
//! | [`control`], [`gc`] | what the server does by itself |
//! | [`version`] | the version of Kubernetes whose API this is |
//! | [`Server`] | all of it, running |

#![warn(missing_docs)]

pub mod authn;
pub mod bounds;
pub mod builtin;
pub mod control;
pub mod discovery;
pub mod gc;
pub mod handlers;
pub mod json;
mod lazy;
pub mod managed_fields;
pub mod object;
pub mod openapi;
pub mod output;
pub mod patch;
pub mod rbac;
pub mod registry;
pub mod request;
pub mod resource;
pub mod secure_serving;
mod server;
pub mod status;
pub mod storage;
pub mod store;
pub mod version;

pub use control::ServerOptions;
pub use lazy::Lazy;
pub use server::{Server, StartError};
