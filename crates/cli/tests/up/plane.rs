//! A `capt up` of a test's own, and the commands that talk to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Far more than anything here takes.
pub const SOON: Duration = Duration::from_secs(300);
/// Between two looks at what is waited for.
pub const PAUSE: Duration = Duration::from_millis(50);

/// `capt` with arguments, on nothing but what the test gives it.
pub fn capt(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capt"));
    command.args(arguments).env_remove("KUBECONFIG").env_remove("CAPT_DATA_DIR");
    command
}

/// What a command printed, both streams.
pub fn said(output: &Output) -> String {
    String::from_utf8([output.stdout.as_slice(), &output.stderr].concat()).unwrap()
}

/// The address that `--metrics` took, as the log tells it.
pub fn metrics_address(folder: &Path) -> Option<String> {
    let log = std::fs::read_to_string(folder.join("capt.log")).ok()?;
    let (_, rest) = log.split_once("serves metrics address=")?;
    rest.split_whitespace().next().map(str::to_owned)
}

/// The answer to a request over plain HTTP.
pub fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// A running `capt up -o json`. It is killed when this is dropped; runs of Terraform end by themselves.
pub struct Plane {
    process: Child,
    events: Receiver<Value>,
    folder: PathBuf,
}

impl Plane {
    /// Starts it, and waits until it listens.
    pub fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut command = capt(&["up", "-o", "json", "--data-dir"]);
        command.arg(folder).args(arguments);
        Self::of(folder, command)
    }

    pub fn of(folder: &Path, mut command: Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let (send, events) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let event = serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line}"));
                if send.send(event).is_err() {
                    return;
                }
            }
        });
        let plane = Self { process, events, folder: folder.to_owned() };
        plane.event("listening", |_| true);
        plane
    }

    /// Waits for an event of that type.
    pub fn event(&self, kind: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + SOON;
        let mut seen = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left) {
                Ok(event) if event["type"] == kind && holds(&event) => return event,
                Ok(event) => seen.push(event.to_string()),
                Err(error) => panic!("no event {kind}: {error}; seen: {}", seen.join("\n")),
            }
        }
    }

    /// Waits until an object is in that phase.
    pub fn phase(&self, kind: &str, name: &str, phase: &str) -> Value {
        self.event("status", |event| {
            event["kind"] == kind && event["name"] == name && event["phase"] == phase
        })
    }

    /// A command on this API.
    pub fn command(&self, arguments: &[&str]) -> Output {
        capt(arguments).arg("--data-dir").arg(&self.folder).output().unwrap()
    }

    /// What it prints; it must succeed.
    pub fn run(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
        said(&output)
    }

    /// Asks until what it prints holds.
    pub fn until(&self, arguments: &[&str], holds: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + SOON;
        loop {
            let text = self.run(arguments);
            if holds(&text) {
                return text;
            }
            assert!(Instant::now() < deadline, "{arguments:?} still says: {text}");
            std::thread::sleep(PAUSE);
        }
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    pub fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.process)
    }

    /// As Ctrl-C does.
    pub fn interrupt(&self) {
        rustix::process::kill_process(self.pid(), rustix::process::Signal::INT).unwrap();
    }

    /// Waits for the end.
    pub fn end(mut self) -> ExitStatus {
        self.process.wait().unwrap()
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
