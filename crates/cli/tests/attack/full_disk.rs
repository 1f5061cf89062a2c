//! A disk that is full for longer than a Lease lasts: `capt up` says so, refuses writes, and goes on with space.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::damaged_store::{config_maps, create};
use crate::plane::{PAUSE, SOON, get, metrics_address};

/// `capt up` on a small disk of its own in `folder`; `None` where nobody may mount one.
fn on_a_small_disk(folder: &Path) -> Option<Command> {
    let root = std::os::unix::fs::MetadataExt::uid(&fs::metadata("/proc/self").unwrap()) == 0;
    let mount = "mount -t tmpfs -o size=24m,mode=0700 tmpfs \"$0\"";
    let command = |then: &str| {
        let mut command = Command::new("unshare");
        command.arg(if root { "-m" } else { "-rm" });
        command.args(["sh", "-c", &format!("{mount} && {then}")]).arg(folder);
        command
    };
    let mounts = command("true").output().is_ok_and(|output| output.status.success());
    mounts.then(|| {
        let mut up = command("exec \"$@\"");
        up.arg(env!("CARGO_BIN_EXE_capt"))
            .args(["up", "-o", "json", "--metrics", "127.0.0.1:0", "--data-dir"])
            .arg(folder.join("data"));
        up.env_remove("KUBECONFIG").env_remove("CAPT_DATA_DIR");
        up
    })
}

/// Killed when it is dropped.
struct Up(Child);

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + SOON;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "no {what}");
        std::thread::sleep(PAUSE);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_goes_on_when_there_is_space_again() {
    let place = tempfile::tempdir().unwrap();
    let Some(mut command) = on_a_small_disk(place.path()) else {
        assert!(!capt_e2e::required(), "nobody may mount a small disk here");
        capt_e2e::skip("nobody may mount a small disk here (unshare -rm)");
        return;
    };
    let mut up = Up(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    // The disk is mounted in that process alone.
    let inside = PathBuf::from(format!("/proc/{}/root", up.0.id()));
    let disk = inside.join(place.path().strip_prefix("/").unwrap());
    let kubeconfig = disk.join("data/kubeconfig");
    until("kubeconfig", || kubeconfig.exists().then_some(()));
    let maps = config_maps(&kubeconfig).await;
    create(&maps, "before").await.unwrap();
    let health = until("address", || metrics_address(&disk.join("data")));
    let ready = || get(&health, "/readyz").starts_with("HTTP/1.1 200 ").then_some(());
    until("readiness", ready);

    let mut greedy = fs::File::create(disk.join("greedy")).unwrap();
    while greedy.write_all(&[0; 4096]).is_ok() {}
    // What is left of the log's last block may take one more.
    let mut number = 0;
    let refused = loop {
        match create(&maps, &format!("full-{number}")).await {
            Ok(_) => number += 1,
            Err(error) => break error,
        }
        assert!(number < 10_000, "the disk takes everything");
        while greedy.write_all(&[0; 4096]).is_ok() {}
    };
    let kube::Error::Api(status) = &refused else { panic!("{refused}") };
    assert_eq!((status.code, status.reason.as_str()), (500, "InternalError"), "{refused}");
    assert!(status.message.contains("no room to write"), "{refused}");

    // It lasts until it would have ended over its Lease.
    let mut lines = BufReader::new(up.0.stderr.take().unwrap()).lines();
    let line = lines.next().expect("it says something").unwrap();
    assert!(line.contains("goes on when there is space again"), "{line}");
    assert!(maps.get("before").await.is_ok(), "reads go on");
    let answer = get(&health, "/readyz");
    assert!(answer.starts_with("HTTP/1.1 500 "), "{answer}");
    for line in ["\n[-]lease failed: the Lease was not renewed for ", "\n[-]storage failed: write into "] {
        assert!(answer.contains(line), "{line} in {answer}");
    }
    assert!(get(&health, "/livez").starts_with("HTTP/1.1 200 "), "a restart makes no space");
    // Open, it would keep its space.
    drop(greedy);
    fs::remove_file(disk.join("greedy")).unwrap();
    let deadline = Instant::now() + SOON;
    while let Err(error) = create(&maps, "after").await {
        assert!(Instant::now() < deadline, "{error}");
        tokio::time::sleep(PAUSE).await;
    }
    // Its Lease is renewed, too.
    until("readiness", ready);
    assert_eq!(up.0.try_wait().unwrap(), None, "it runs on");
}
