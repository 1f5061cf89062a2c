//! Controllers as users of their own, and what they wrote by the audit log of the server.

use std::path::PathBuf;

use kube::config::Kubeconfig;
use serde_json::Value;

use crate::world::World;

/// A kubeconfig of the server, as another administrator.
pub fn kubeconfig_of(world: &World, user: &str) -> PathBuf {
    let mut kubeconfig = Kubeconfig::read_from(world.kubeconfig()).unwrap();
    let own = kubeconfig.auth_infos[0].auth_info.as_mut().unwrap();
    own.impersonate = Some(user.to_owned());
    own.impersonate_groups = Some(vec!["system:masters".to_owned()]);
    let path = world.folder.path().join(format!("{user}.kubeconfig"));
    std::fs::write(&path, serde_json::to_vec(&kubeconfig).unwrap()).unwrap();
    path
}

/// What `old` wrote after `new` had the Lease, by the order of the server. Secrets are left out: the guard of a run hands in its last
/// state with the rights of its controller, and the fence in them is what keeps older ones away.
pub fn late_writes(world: &World, old: &str, new: &str) -> Vec<String> {
    let log = std::fs::read_to_string(world.folder.path().join("audit.log")).unwrap();
    let text = |line: &Value, key: &str| line[key].as_str().unwrap_or_default().to_owned();
    let writes: Vec<(String, String)> = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|line| line["method"] != "GET" && line["code"].as_u64().is_some_and(|code| code < 300))
        .map(|line| (text(&line, "user"), text(&line, "path")))
        .collect();
    let of_old = |(user, path): &&(String, String)| user == old && !path.contains("/secrets");
    assert!(writes.iter().any(|write| of_old(&write) && write.1.contains("/status")), "{old}: {writes:#?}");
    let took = writes.iter().position(|(user, path)| user == new && path.contains("/leases/"));
    let after = &writes[took.expect("the new one took the Lease")..];
    after.iter().filter(of_old).map(|(_, path)| path.clone()).collect()
}
