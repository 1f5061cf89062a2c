//! Decisions: what was observed, and the time, become a plan. No other crate decides.
//!
//! Everything here is a pure function on data: no client, no clock, no randomness that was not handed in. A controller
//! builds the observation from its cache, calls the `decide` of its kind ([`deployment::plan`] and [`set::plan`] for
//! whole fleets), and carries out what was decided; each entry of a plan says why it is there. Plans speak of one step.
//! What follows is decided again, from what is then observed, so a crash between any two writes loses nothing.
//!
//! | Room | What is decided there |
//! |---|---|
//! | [`deployment`] | which sets there are and how large: rollouts, scaling, revisions, history, status |
//! | [`set`] | which machines there are: create, delete, adopt, release, update in place, status |
//! | [`cluster`] | networks and control planes: what is built when, and their states; Clusters where Cluster API core is not installed |
//! | [`workspace`] | one WorkspaceTemplateApply: runs, approvals, retries, drift, its end |
//! | [`machine`] | one machine: its workspace, its providerID, the drain of its Node |
//! | [`node_group`] | one node group |
//! | [`owned_workspace`] | the owner of one workspace, for all kinds that have one: create, adopt, correct, pause, delete, retain, release |
//! | [`inputs`] | the variables that CAPT passes to modules of machines and node groups |
//! | [`availability`] | what counts as ready and available, and when it will |
//! | [`budget`] | maxSurge and maxUnavailable as numbers |
//! | [`template`] | what of a template makes a machine another one, and what reaches it in place |
//! | [`names`], [`hash`] | names of children |
//! | [`revision`] | numbers of revisions, history, undo |
//! | [`conditions`] | conditions that keep their time while they do not change |
//! | [`reason`] | why, as data and in words |
//! | [`simulate`] | a whole rollout on an imagined clock |
//!
//! The obligations of a controller, for the guarantees in `docs/rollouts.md` to hold, are said at [`deployment::plan`] and
//! [`set::plan`].

pub mod availability;
pub mod budget;
pub mod cause;
pub mod cluster;
pub mod conditions;
pub mod deployment;
pub mod hash;
pub mod inputs;
pub mod machine;
pub mod names;
pub mod node_group;
pub mod owned_workspace;
mod owner;
pub mod reason;
pub mod revision;
pub mod set;
pub mod simulate;
pub mod template;
pub mod workspace;

pub use reason::{Count, Reason, Why};
