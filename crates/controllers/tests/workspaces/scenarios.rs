//! Scenarios: each is a test of its own on the embedded API; on a real kube-apiserver they share one.

use std::sync::Arc;

use crate::fixture::Harness;

/// Makes tests of them: `room: a, b;` are functions of the module `room` that take a fixture.
macro_rules! scenarios {
    ($($room:ident: $($name:ident),+;)+) => {
        mod embedded {
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    if !crate::scenarios::can_run("embedded") {
                        return;
                    }
                    let harness = std::sync::Arc::new(crate::fixture::Harness::embedded().await);
                    crate::$room::$name(&crate::fixture::Fixture::new(harness, stringify!($name)).await).await;
                }
            )+)+
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn a_real_kube_apiserver_agrees() {
            let Some(harness) = crate::scenarios::real().await else { return };
            $($(
                eprintln!("{}", stringify!($name));
                let fixture = crate::fixture::Fixture::new(std::sync::Arc::clone(&harness), stringify!($name)).await;
                crate::$room::$name(&fixture).await;
                fixture.leave().await;
            )+)+
        }
    };
}

/// A harness on a real kube-apiserver, where there is one.
pub async fn real() -> Option<Arc<Harness>> {
    if !can_run("kube-apiserver") {
        return None;
    }
    let peers = capt_e2e::Peers::find_or_skip(capt_e2e::KubeApiserver::NEEDS)?;
    let server = capt_e2e::KubeApiserver::start(&peers).await.unwrap();
    Some(Arc::new(Harness::real(server).await))
}

/// Tests run where Terraform or OpenTofu is.
pub fn can_run(api: &str) -> bool {
    capt_e2e::runs_on(api) && capt_e2e::has_terraform()
}
