//! Names of what is generated beside a module, and told of by Terraform.

/// Names of our value files: the last in the alphabet win, and these come after a module's own.
pub(crate) const VALUES: &str = "zzz-capt";
/// The name under which the engine calls the module that it fetches.
pub(crate) const FETCHED: &str = "fetched";
/// The file in which it calls that module.
pub(crate) const CALL: &str = "fetch.tf.json";
