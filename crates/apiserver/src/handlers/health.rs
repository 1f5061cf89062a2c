//! Health endpoints: `/livez`, `/readyz` and `/healthz`, and each of their checks below them.
//!
//! Every user may read the endpoints; the reason of a failure is only shown by the path of the failed check.

use std::collections::BTreeSet;
use std::fmt::Write;

use http::{HeaderValue, Response, StatusCode, header};

use super::body::whole;
use super::{Api, Body, Call};
use crate::request::path::Probe;
use crate::status::{ApiError, go};

/// A health check, under the name that `exclude` and the path of the check use.
struct Check {
    name: &'static str,
    run: fn(&Api) -> Result<(), String>,
}

/// All three endpoints run the same checks, in this order.
static CHECKS: [Check; 2] =
    [Check { name: "ping", run: |_| Ok(()) }, Check { name: "storage", run: storage }];

/// Fails once the store is read-only.
fn storage(api: &Api) -> Result<(), String> {
    match api.storage.store.refuses_writes() {
        Some(why) => Err(format!("the store takes no more writes: {why}")),
        None => Ok(()),
    }
}

/// The paths of the endpoints and of their checks.
pub(super) fn paths() -> impl Iterator<Item = String> {
    [Probe::Live, Probe::Ready, Probe::Health].into_iter().flat_map(|probe| {
        let root = format!("/{}", probe.as_str());
        let checks = CHECKS.iter().map(move |check| format!("/{}/{}", probe.as_str(), check.name));
        std::iter::once(root).chain(checks)
    })
}

impl Api {
    /// Answers a probe, or one of its checks.
    pub(super) fn health(
        &self,
        probe: Probe,
        check: Option<&str>,
        call: &Call<'_>,
    ) -> Result<Response<Body>, ApiError> {
        let Some(wanted) = check else {
            let outcomes = CHECKS.each_ref().map(|check| (check.name, (check.run)(self).is_ok()));
            return Ok(overall(probe, &outcomes, call));
        };
        let check = CHECKS.iter().find(|check| check.name == wanted).ok_or(ApiError::PageNotFound)?;
        Ok(match (check.run)(self) {
            Ok(()) => text(StatusCode::OK, "ok".to_owned()),
            Err(why) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {why}\n")),
        })
    }
}

/// The response for all checks: verbose if one failed or the request asks for it, without reasons.
fn overall(probe: Probe, outcomes: &[(&str, bool)], call: &Call<'_>) -> Response<Body> {
    let mut excluded: BTreeSet<&str> = call.query.all("exclude").collect();
    let mut report = String::new();
    let mut is_healthy = true;
    // Writing to a string cannot fail.
    for (name, passed) in outcomes {
        let _ = if excluded.remove(name) {
            writeln!(report, "[+]{name} excluded: ok")
        } else if *passed {
            writeln!(report, "[+]{name} ok")
        } else {
            is_healthy = false;
            writeln!(report, "[-]{name} failed: reason withheld")
        };
    }
    if !excluded.is_empty() {
        let unknown: Vec<String> = excluded.iter().map(|name| go::quote(name)).collect();
        let unknown = unknown.join(",");
        let _ = writeln!(report, "warn: some health checks cannot be excluded: no matches for {unknown}");
    }
    let name = probe.as_str();
    if !is_healthy {
        return text(StatusCode::INTERNAL_SERVER_ERROR, format!("{report}{name} check failed\n"));
    }
    match call.query.get("verbose") {
        Some(_) => text(StatusCode::OK, format!("{report}{name} check passed\n")),
        None => text(StatusCode::OK, "ok".to_owned()),
    }
}

fn text(code: StatusCode, text: String) -> Response<Body> {
    let mut response = Response::new(whole(text));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, Method};
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::authn::User;
    use crate::request::query::Query;
    use crate::request::write::Warnings;

    /// The words are those of kube-apiserver, which tools search.
    #[tokio::test]
    async fn a_probe_tells_what_failed_and_what_was_left_out() {
        const WELL: &[(&str, bool)] = &[("ping", true), ("storage", true)];
        const BROKEN: &[(&str, bool)] = &[("ping", true), ("storage", false)];
        let unknown = "warn: some health checks cannot be excluded: no matches for \"etcd\",\"x\"\n";
        for (outcomes, query, code, wanted) in [
            (WELL, "", 200, "ok".to_owned()),
            (WELL, "exclude=etcd", 200, "ok".to_owned()),
            (WELL, "verbose", 200, "[+]ping ok\n[+]storage ok\nreadyz check passed\n".to_owned()),
            (WELL, "verbose=false", 200, "[+]ping ok\n[+]storage ok\nreadyz check passed\n".to_owned()),
            (
                WELL,
                "verbose&exclude=storage&exclude=x&exclude=etcd",
                200,
                format!("[+]ping ok\n[+]storage excluded: ok\n{unknown}readyz check passed\n"),
            ),
            (
                BROKEN,
                "",
                500,
                "[+]ping ok\n[-]storage failed: reason withheld\nreadyz check failed\n".to_owned(),
            ),
            (BROKEN, "exclude=storage", 200, "ok".to_owned()),
        ] {
            let (headers, body, user) = (HeaderMap::new(), Bytes::new(), User::admin());
            let call = Call {
                method: &Method::GET,
                query: Query::parse(query),
                headers: &headers,
                body: &body,
                user: &user,
                budget_user: &user,
                warnings: Warnings::default(),
                decode_permit: std::sync::Mutex::default(),
                response_budget: &crate::handlers::response_budget::budget(),
            };
            let answer = overall(Probe::Ready, outcomes, &call);
            assert_eq!(answer.status().as_u16(), code, "{query}");
            let said = answer.into_body().collect().await.expect("a body in memory").to_bytes();
            assert_eq!(String::from_utf8_lossy(&said), wanted, "{query}");
        }
    }
}
