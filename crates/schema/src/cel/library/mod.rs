//! The functions of rules, by the type they are called on.

mod convert;
mod dispatch;
mod lists;
mod named_format;
mod net;
mod quantity;
mod semver;
mod strings;
mod text_format;
mod times;

pub(crate) use convert::to as convert;
pub(crate) use dispatch::{global, member, size_of};
pub(crate) use lists::sort_by;
pub(crate) use net::Cidr;
pub(crate) use quantity::Quantity;
pub(crate) use semver::Semver;
