//! Specification of a guard: its command line.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use crate::sandbox::Rules;

/// A process to guard.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Spec {
    /// File for the exit code.
    pub exit: PathBuf,
    /// Sandbox rules of Terraform.
    pub rules: Option<Rules>,
    pub fence: Option<Fence>,
    /// Of the guard, as Terraform's entrance must find it.
    pub guard: Option<i32>,
    pub program: PathBuf,
    pub args: Vec<OsString>,
}

/// End of a run whose controller lost its lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fence {
    /// The file of the [term](super::term).
    pub term: PathBuf,
    /// Time for Terraform to save its state.
    pub grace: Duration,
    /// File for the reason why Terraform was stopped.
    pub stopped: PathBuf,
    pub why: String,
    /// The workspace whose state is handed in afterwards.
    pub hand_in: Option<PathBuf>,
}

impl Spec {
    /// As arguments.
    pub fn arguments(&self) -> Vec<OsString> {
        let Self { exit, rules, fence, guard, program, args } = self;
        let mut all: Vec<OsString> = Vec::new();
        let mut option = |name: &str, value: OsString| all.extend([OsString::from(name), value]);
        option("exit", exit.into());
        if let Some(Fence { term, grace, stopped, why, hand_in }) = fence {
            option("term", term.into());
            option("grace", grace.as_millis().to_string().into());
            option("stopped", stopped.into());
            option("why", why.into());
            if let Some(folder) = hand_in {
                option("hand-in", folder.into());
            }
        }
        if let Some(guard) = guard {
            option("guard", guard.to_string().into());
        }
        if let Some(rules) = rules {
            option("shut-in", "".into());
            for path in &rules.write {
                option("write", path.into());
            }
            for path in &rules.read {
                option("read", path.into());
            }
            for path in &rules.real.write {
                option("write-real", path.into());
            }
            for path in &rules.real.read {
                option("read-real", path.into());
            }
        }
        option("run", program.into());
        all.extend(args.iter().cloned());
        all
    }

    /// Of arguments; `None` where they are none of ours.
    pub fn parse(mut args: impl Iterator<Item = OsString>) -> Option<Self> {
        let mut spec = Self::default();
        loop {
            let (name, value) = (args.next()?, args.next()?);
            match name.to_str()? {
                "exit" => spec.exit = value.into(),
                "term" => spec.fence.get_or_insert_default().term = value.into(),
                "grace" => {
                    let grace = Duration::from_millis(value.to_str()?.parse().ok()?);
                    spec.fence.get_or_insert_default().grace = grace;
                }
                "stopped" => spec.fence.get_or_insert_default().stopped = value.into(),
                "why" => spec.fence.get_or_insert_default().why = value.into_string().ok()?,
                "hand-in" => spec.fence.get_or_insert_default().hand_in = Some(value.into()),
                "guard" => spec.guard = Some(value.to_str()?.parse().ok()?),
                "shut-in" => spec.rules = Some(Rules::default()),
                "write" => spec.rules.get_or_insert_default().write.push(value.into()),
                "read" => spec.rules.get_or_insert_default().read.push(value.into()),
                "write-real" => spec.rules.get_or_insert_default().real.write.push(value.into()),
                "read-real" => spec.rules.get_or_insert_default().real.read.push(value.into()),
                "run" => {
                    (spec.program, spec.args) = (value.into(), args.collect());
                    return Some(spec);
                }
                _ => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::Grants;

    #[test]
    fn a_command_line_says_all_of_it() {
        let program = PathBuf::from("/bin/terraform");
        let bare = Spec { exit: "/r/exit".into(), program, ..Spec::default() };
        let real = Grants { write: vec!["/c".into()], read: vec!["/m".into(), "/c".into()] };
        let rules = Rules { write: vec!["/w".into(), "read".into()], read: vec!["/r".into()], real };
        let fence = Fence {
            term: "/t".into(),
            grace: Duration::from_millis(1500),
            stopped: "/r/stopped".into(),
            why: "\"x\"".into(),
            hand_in: Some("/w".into()),
        };
        let full = Spec {
            rules: Some(rules),
            fence: Some(fence),
            guard: Some(7),
            args: vec!["run".into(), "-json".into()],
            exit: bare.exit.clone(),
            program: bare.program.clone(),
        };
        let shut_in = Spec { rules: Some(Rules::default()), args: Vec::new(), fence: None, ..bare_of(&bare) };
        for spec in [bare, full, shut_in] {
            assert_eq!(Spec::parse(spec.arguments().into_iter()), Some(spec));
        }
    }

    fn bare_of(spec: &Spec) -> Spec {
        Spec { exit: spec.exit.clone(), program: spec.program.clone(), ..Spec::default() }
    }

    #[test]
    fn what_people_type_is_none() {
        for typed in [&[][..], &["--help"], &["run"], &["exit", "x"], &["grace", "soon", "run", "x"]] {
            assert_eq!(Spec::parse(typed.iter().map(OsString::from)), None, "{typed:?}");
        }
    }
}
