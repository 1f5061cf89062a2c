//! Whose work a run goes on with.
//!
//! A state, a plan and the ids of what a run was cut off from name what is destroyed, what is taken over and which providers are started.
//! Code and credentials that are only lent work on what code of their own origin made, or on nothing at all.

use std::io;

use crate::{
    beneath::remove,
    failure::{Failure, Reason},
    folders::WorkspaceFolder,
    inputs::Inputs,
    record::Record,
    state::State,
};

/// Returns true if there is nothing that a run could continue with.
pub(super) fn is_blank(folder: &WorkspaceFolder, record: &Record, state: Option<&State>) -> bool {
    record.is_blank() && state.is_none_or(State::is_empty) && !folder.pending().exists()
}

/// Refuses to work on what is somebody else's: a workspace that was built by the code of another owner than the order's, and, with code
/// that is only lent, one that code of another origin can have made. Says whether a run of lent code begins, and what is left of others
/// has to go first.
pub(super) fn check(
    record: &Record,
    blank: bool,
    ordered: Option<&Inputs>,
    inputs: &Inputs,
) -> Result<bool, Failure> {
    let origin = |inputs: &Inputs| inputs.origin.clone();
    let built_by = record.made_by.clone().or_else(|| record.inputs.as_ref().and_then(origin));
    if let (true, Some(before), Some(now)) = (record.touched, built_by, ordered.and_then(origin))
        && before != now
    {
        let message = format!(
            "this workspace was built by a template of namespace {before}, and is neither taken over nor destroyed by one of {now}: \
             create the object under another name; retainWorkspaceOnDelete leaves all as it is when this one goes"
        );
        return Err(Failure::new(Reason::StateNotTrusted, message));
    }
    if !inputs.lent && !ordered.is_some_and(|ordered| ordered.lent) {
        return Ok(false);
    }
    // The order, what it comes to, and what the last apply was made from.
    let all_of = |origin: Option<&String>| {
        let all = ordered.into_iter().chain([inputs]).chain(record.inputs.as_ref());
        origin.is_some() && all.into_iter().all(|inputs| inputs.origin.as_ref() == origin)
    };
    if all_of(record.made_by.as_ref()) || blank && all_of(inputs.origin.as_ref()) {
        return Ok(blank && record.made_by != inputs.origin);
    }
    let message = "its state was imported, kept where others can write it, or made by code of another namespace, and a template that \
                   another namespace lends does not work on it: use a template of its own namespace; after a move, bring the Secret \
                   capt-state-key along";
    Err(Failure::new(Reason::StateNotTrusted, message))
}

/// Clears away what others left before lent code begins: an empty state, copies of earlier ones, files beside the module, and a plan,
/// unless code of that origin made it.
pub(super) fn start_over(
    folder: &WorkspaceFolder,
    record: Record,
    origin: Option<&str>,
) -> io::Result<Record> {
    let Record { workspace, last, planned, seen, .. } = record;
    let planned = planned.filter(|planned| planned.inputs.origin.as_deref() == origin);
    remove(&folder.state())?;
    remove(&folder.copies())?;
    if planned.is_none() {
        remove(&folder.plan())?;
    }
    folder.open_guest()?.clear()?;
    remove(&folder.rendered())?;
    Ok(Record { planned, last, seen, ..Record::new(workspace) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::WorkspaceId;

    fn of(origin: &str) -> Inputs {
        let mut inputs = Inputs::inline("");
        (inputs.origin, inputs.lent) = (Some(origin.to_owned()), origin != "tenant");
        inputs
    }

    #[test]
    fn who_goes_on_with_whose_work() {
        // Who made what is there, the inputs of the last apply, who comes -> whether it may go on.
        let rows = [
            (Some("vault"), Some("vault"), "vault", true),
            (Some("vault"), Some("vault"), "tenant", false),
            (Some("vault"), Some("vault"), "other", false),
            (Some("tenant"), Some("tenant"), "tenant", true),
            (Some("tenant"), Some("tenant"), "vault", false),
            // Imported into what the vault built, or into nothing; and what was kept without a seal.
            (None, Some("vault"), "vault", false),
            (None, Some("tenant"), "tenant", true),
            (None, None, "vault", false),
            (None, None, "tenant", true),
            // No version writes this.
            (Some("vault"), Some("tenant"), "vault", false),
        ];
        for (made_by, built_from, who, expected) in rows {
            let record = Record {
                made_by: made_by.map(str::to_owned),
                inputs: built_from.map(of),
                touched: true,
                ..Record::new(WorkspaceId::new("tenant/a"))
            };
            let inputs = of(who);
            let going_on = check(&record, false, Some(&inputs), &inputs);
            assert_eq!(going_on.is_ok(), expected, "{made_by:?} {built_from:?} {who}");
            // A destroy of what the template left behind, when it is gone itself.
            if let Some(kept) = record.inputs.as_ref().filter(|_| built_from == Some(who)) {
                assert_eq!(check(&record, false, None, kept).is_ok(), expected, "{made_by:?} {who}, kept");
            }
        }
    }

    #[test]
    fn who_begins_starts_with_nothing() {
        let blank = Record::new(WorkspaceId::new("tenant/a"));
        assert!(blank.is_blank());
        let (vault, tenant) = (of("vault"), of("tenant"));
        assert_eq!(check(&blank, true, Some(&vault), &vault), Ok(true));
        assert_eq!(check(&blank, true, Some(&tenant), &tenant), Ok(false));
        // Credentials of one with the code of the other, whoever lends.
        assert!(check(&blank, true, Some(&vault), &tenant).is_err());
        assert!(check(&blank, true, Some(&tenant), &vault).is_err());
        // A state that nobody has told of is something.
        assert!(check(&blank, false, Some(&vault), &vault).is_err());
    }
}
