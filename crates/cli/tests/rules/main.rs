//! Every rule of the API, case by case (see `crates/api/rules`), through `capt validate`, through the embedded API
//! and through a real kube-apiserver. `CAPT_TEST_API=offline`, `=embedded` or `=kube-apiserver` runs one of them alone.

mod cases;
mod engine;
mod offline;
mod online;

use cases::{Case, Expected, Refusal, Verdict};

/// What is wrong with a verdict, if anything.
fn complaint(case: &Case, verdict: &Verdict) -> Option<String> {
    let title = format!("{} / {}", case.file, case.name);
    let told =
        |refusals: &[Refusal]| refusals.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n    ");
    match (&case.expected, verdict) {
        (Expected::Accept, Verdict::Accepted) => None,
        (Expected::Accept, Verdict::Refused(refusals)) => {
            Some(format!("{title}: should be accepted, but:\n    {}", told(refusals)))
        }
        (Expected::Refuse(text), Verdict::Accepted) => {
            Some(format!("{title}: should be refused with {text:?}, and is accepted"))
        }
        (Expected::Refuse(text), Verdict::Refused(refusals)) => {
            let said = refusals.iter().any(|refusal| refusal.to_string().contains(text.as_str()));
            (!said).then(|| format!("{title}: should say {text:?}, but says:\n    {}", told(refusals)))
        }
    }
}

fn assert_no_complaints(complaints: &[String]) {
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}

#[test]
fn capt_validate_gives_the_expected_verdicts() {
    if !capt_e2e::runs_on("offline") {
        return;
    }
    let cases = cases::load();
    assert!(cases.len() >= 200, "the cases are gone");
    let verdicts = offline::verdicts(&cases);
    assert_no_complaints(
        &cases
            .iter()
            .zip(&verdicts)
            .filter_map(|(case, verdict)| complaint(case, verdict))
            .collect::<Vec<_>>(),
    );
}

/// An API gives the expected verdicts too, and `capt validate` says the same of the same fields.
async fn agrees(name: &str, client: &kube::Client) {
    let cases = cases::load();
    let offline = offline::verdicts(&cases);
    let crds = online::install_crds(client).await;
    let mut complaints = Vec::new();
    for (case, offline) in cases.iter().zip(&offline) {
        let online = online::verdict(client, &crds, case).await;
        complaints.extend(complaint(case, &online));
        if online != *offline {
            let title = format!("{} / {}", case.file, case.name);
            complaints.push(format!("{title}: {name} says {online:#?}, capt validate says {offline:#?}"));
        }
    }
    assert_no_complaints(&complaints);
}

#[tokio::test]
async fn a_real_kube_apiserver_agrees() {
    if !capt_e2e::runs_on("kube-apiserver") {
        return;
    }
    let Some(peers) = capt_e2e::Peers::find_or_skip(capt_e2e::KubeApiserver::NEEDS) else { return };
    let server = capt_e2e::KubeApiserver::start(&peers).await.expect("kube-apiserver starts");
    agrees("kube-apiserver", &server.client()).await;
}

#[tokio::test]
async fn the_embedded_api_agrees() {
    if !capt_e2e::runs_on("embedded") {
        return;
    }
    let server = capt_apiserver::Server::in_memory().await.expect("the embedded API starts");
    agrees("the embedded API", &server.client("default")).await;
}
