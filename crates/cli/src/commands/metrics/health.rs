//! `/livez`, `/readyz` and `/healthz`, and each of their checks below them, in the words of components of Kubernetes.
//!
//! | Check | `/livez` | `/readyz`, `/healthz` |
//! |---|---|---|
//! | `ping` | it answers | it answers |
//! | `caches` | | every kind that the controllers decide by was listed once |
//! | `lease` | a holder of the Lease does not go on long after it ended | it is renewed in time, or another process holds it |
//! | `storage` | | the data folder and the store take writes |
//!
//! A restart helps neither a full disk nor an API that is away: `/livez` does not fail for them.

use std::collections::BTreeSet;
use std::fmt::Write;

use capt_controllers::runtime::FirstList;
use http::{Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;

use super::{Process, text};

/// An endpoint.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Probe {
    Live,
    Ready,
    Health,
}

/// The checks of `/livez`.
const LIVE: &[Check] = &[Check::Ping, Check::LeaseNotOverrun];
/// The checks of the others.
const READY: &[Check] = &[Check::Ping, Check::Caches, Check::Lease, Check::Storage];

#[derive(Clone, Copy, Debug)]
enum Check {
    Ping,
    Caches,
    Lease,
    LeaseNotOverrun,
    Storage,
}

/// Result of a check: a remark, if there is one, or the reason that it failed.
type Outcome = Result<Option<String>, String>;

impl Probe {
    /// The endpoint of a path, and the name of its check where the path names one.
    pub fn of(path: &str) -> Option<(Self, Option<&str>)> {
        let (root, check) = match path.strip_prefix('/')?.split_once('/') {
            Some((root, check)) => (root, Some(check)),
            None => (path.strip_prefix('/')?, None),
        };
        let all = [Self::Live, Self::Ready, Self::Health];
        let probe = all.into_iter().find(|probe| probe.name() == root)?;
        Some((probe, check)).filter(|_| check.is_none_or(|name| probe.find(name).is_some()))
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Live => "livez",
            Self::Ready => "readyz",
            Self::Health => "healthz",
        }
    }

    const fn checks(self) -> &'static [Check] {
        match self {
            Self::Live => LIVE,
            Self::Ready | Self::Health => READY,
        }
    }

    fn find(self, name: &str) -> Option<Check> {
        self.checks().iter().copied().find(|check| check.name() == name)
    }
}

impl Check {
    const fn name(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::Caches => "caches",
            Self::Lease | Self::LeaseNotOverrun => "lease",
            Self::Storage => "storage",
        }
    }
}

impl Process {
    /// Answers a probe, or the one check of it that was asked for.
    pub(super) async fn health(
        &self,
        probe: Probe,
        check: Option<&str>,
        query: &str,
    ) -> Response<Full<Bytes>> {
        if let Some(check) = check.and_then(|name| probe.find(name)) {
            return match self.run(check).await {
                Ok(_) => text(StatusCode::OK, "ok"),
                Err(why) => {
                    text(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {why}\n"))
                }
            };
        }
        let excluded: BTreeSet<&str> =
            query.split('&').filter_map(|part| part.strip_prefix("exclude=")).collect();
        let mut outcomes = Vec::new();
        for check in probe.checks() {
            // What is left out is not asked: it may be what hangs.
            let outcome = if excluded.contains(check.name()) { None } else { Some(self.run(*check).await) };
            outcomes.push((check.name(), outcome));
        }
        let known = |name: &&&str| !outcomes.iter().any(|(check, _)| check == *name);
        let unknown: Vec<String> = excluded.iter().filter(known).map(|name| format!("{name:?}")).collect();
        let verbose = query.split('&').any(|part| part == "verbose" || part.starts_with("verbose="));
        let (code, report) = report(probe, &outcomes, &unknown, verbose);
        text(code, report)
    }

    async fn run(&self, check: Check) -> Outcome {
        match check {
            Check::Ping => Ok(None),
            Check::Caches => self.caches(),
            Check::Lease => self.lease.ready().map(Some),
            Check::LeaseNotOverrun => self.lease.live().map(|()| None),
            Check::Storage => self.storage.check().await.map(|()| None),
        }
    }

    fn caches(&self) -> Outcome {
        let Some(running) = self.running.get() else {
            // Its controllers have nothing to do before it holds the Lease.
            return if self.lease.is_standby() {
                Ok(None)
            } else {
                Err("the controllers do not run yet".to_owned())
            };
        };
        let missing: Vec<&str> =
            running.caches.iter().filter(|list| !list.is_here()).map(FirstList::kind).collect();
        if missing.is_empty() { Ok(None) } else { Err(format!("not listed yet: {}", missing.join(", "))) }
    }
}

/// The answer over all checks: every line where one failed or that is asked for.
fn report(
    probe: Probe,
    outcomes: &[(&str, Option<Outcome>)],
    unknown: &[String],
    verbose: bool,
) -> (StatusCode, String) {
    let (mut report, mut is_well) = (String::new(), true);
    // Writing to a String cannot fail.
    for (name, outcome) in outcomes {
        let _ = match outcome {
            None => writeln!(report, "[+]{name} excluded: ok"),
            Some(Ok(None)) => writeln!(report, "[+]{name} ok"),
            Some(Ok(Some(remark))) => writeln!(report, "[+]{name} ok: {remark}"),
            Some(Err(why)) => {
                is_well = false;
                writeln!(report, "[-]{name} failed: {why}")
            }
        };
    }
    if !unknown.is_empty() {
        let unknown = unknown.join(",");
        let _ = writeln!(report, "warn: some health checks cannot be excluded: no matches for {unknown}");
    }
    let name = probe.name();
    match (is_well, verbose) {
        (false, _) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{report}{name} check failed\n")),
        (true, true) => (StatusCode::OK, format!("{report}{name} check passed\n")),
        (true, false) => (StatusCode::OK, "ok".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_probes() {
        assert_eq!(Probe::of("/readyz"), Some((Probe::Ready, None)));
        assert_eq!(Probe::of("/readyz/storage"), Some((Probe::Ready, Some("storage"))));
        assert_eq!(Probe::of("/livez/lease"), Some((Probe::Live, Some("lease"))));
        for none in ["/livez/storage", "/readyz/", "/readyz/x", "/readyzx", "readyz", "/", ""] {
            assert_eq!(Probe::of(none), None, "{none}");
        }
    }

    /// The words are those of kube-apiserver, which tools search; reasons are told, since whoever reaches the address may see metrics.
    #[test]
    fn a_probe_tells_what_failed_and_what_was_left_out() {
        let well = || vec![("ping", Some(Ok(None))), ("lease", Some(Ok(Some("standby".to_owned()))))];
        let left_out = || vec![("ping", Some(Ok(None))), ("lease", None)];
        let broken = || vec![("ping", Some(Ok(None))), ("lease", Some(Err("it is b's".to_owned())))];
        let unknown = ["\"x\"".to_owned(), "\"y\"".to_owned()];
        for (outcomes, unknown, verbose, code, wanted) in [
            (well(), &[][..], false, 200, "ok"),
            (well(), &unknown, false, 200, "ok"),
            (well(), &[], true, 200, "[+]ping ok\n[+]lease ok: standby\nreadyz check passed\n"),
            (
                left_out(),
                &unknown,
                true,
                200,
                "[+]ping ok\n[+]lease excluded: ok\nwarn: some health checks cannot be excluded: no matches for \"x\",\"y\"\nreadyz check passed\n",
            ),
            (broken(), &[], false, 500, "[+]ping ok\n[-]lease failed: it is b's\nreadyz check failed\n"),
        ] {
            let (answered, said) = report(Probe::Ready, &outcomes, unknown, verbose);
            assert_eq!((answered.as_u16(), said.as_str()), (code, wanted), "{outcomes:?}");
        }
    }
}
