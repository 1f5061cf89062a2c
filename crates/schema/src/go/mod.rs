//! Go's standard library where its behaviour is part of Kubernetes' API: how values are
//! printed in messages, and what counts as a pattern, a duration, a time, a URL, an address.

pub(crate) mod mail;
pub(crate) mod net;
pub(crate) mod regexp;
pub mod text;
pub(crate) mod time;
pub(crate) mod url;
