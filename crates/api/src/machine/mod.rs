//! Machines: a deployment keeps sets, a set keeps machines, a machine is one workspace; node groups are
//! what machines join.

mod deployment;
mod group;
mod set;
mod single;
mod template;

pub use deployment::*;
pub use group::*;
pub use set::*;
pub use single::*;
pub use template::*;
