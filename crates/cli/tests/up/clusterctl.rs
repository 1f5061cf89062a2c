//! The real clusterctl on the demo.

use std::process::Command;

use capt_e2e::{Peer, Peers};

use crate::plane::{Plane, said};

#[test]
fn clusterctl_describes_the_demo() {
    let Some(peers) = Peers::find_or_skip(&[Peer::Clusterctl]) else { return };
    if !capt_e2e::has_terraform() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let plane = Plane::start(&folder.path().join("data"), &["--demo"]);
    plane.event("ready", |_| true);
    for (options, more) in [
        (&["--show-conditions", "all"][..], "InfrastructureReady"),
        (
            &["--show-machinesets", "--show-templates", "--show-resourcesets", "--echo", "--grouping=false"]
                [..],
            "STATUS",
        ),
    ] {
        let described = Command::new(peers.path(Peer::Clusterctl))
            .args(["describe", "cluster", "demo", "--color=false"])
            .args(options)
            .arg("--kubeconfig")
            .arg(plane.kubeconfig())
            // It keeps settings there, and would ask for its newest version.
            .env("HOME", folder.path())
            .env("XDG_CONFIG_HOME", folder.path())
            .env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true")
            .output()
            .unwrap();
        let text = said(&described);
        assert!(described.status.success(), "{options:?}: {text}");
        for part in [
            more,
            "Cluster/demo",
            "ClusterInfrastructure - CAPTCluster/demo",
            "ControlPlane - CAPTControlPlane/demo",
        ] {
            assert!(text.contains(part), "{options:?}: no {part}: {text}");
        }
    }
}
