//! Authentication: who a request is from, and the credentials that the server makes for itself and its administrator.

mod der;
pub(crate) mod files;
mod identity;
mod kubeconfig;
mod request;
mod user;

#[cfg(test)]
pub(crate) use self::identity::provider;
pub(crate) use self::{
    identity::Token,
    request::{Certified, Unauthorized, authenticate},
    user::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED},
};
pub use self::{
    identity::{Identity, IdentityError},
    kubeconfig::{KubeconfigError, write as write_kubeconfig},
    user::User,
};
