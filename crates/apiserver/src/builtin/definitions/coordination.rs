//! Leases.

use super::Package::{Coordination, Meta};
use crate::builtin::schema::{
    Definition,
    DefinitionKind::{Kind, Part},
    Type::{Int32, Of, Text},
    define, field,
};

// One line per field, as in a reference.
#[rustfmt::skip]
pub(super) const TABLE: &[Definition] = &[
    define("Lease", Kind, "A lock that its holder must renew.", &[field("spec", Of(Coordination, "LeaseSpec"), "Who holds it, and how long.")]),
    define("LeaseSpec", Part, "Who holds a lease, and how long.", &[
        field("acquireTime", Of(Meta, "MicroTime"), "When the holder got it.").pointer(),
        field("holderIdentity", Text, "Identity of the holder.").pointer(),
        field("leaseDurationSeconds", Int32, "Seconds after renewTime for which others must wait.").pointer(),
        field("leaseTransitions", Int32, "How often the holder changed.").pointer(),
        field("preferredHolder", Text, "Who should hold it next; only together with strategy.").pointer(),
        field("renewTime", Of(Meta, "MicroTime"), "When the holder last renewed it.").pointer(),
        field("strategy", Text, "How the holder is picked, where an election is coordinated.").pointer(),
    ]),
];
