//! kubectl, run and read.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// For what is a matter of seconds on an idle machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// kubectl with a kubeconfig.
pub struct Kubectl {
    pub program: PathBuf,
    pub kubeconfig: PathBuf,
}

impl Kubectl {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            // Discovery of another server must not answer for this one.
            .arg("--cache-dir")
            .arg(self.kubeconfig.with_extension("cache"))
            .args(arguments);
        command
    }

    pub fn run(&self, arguments: &[&str]) -> (bool, String) {
        self.run_with(arguments, &[])
    }

    /// Runs it with variables of the environment.
    pub fn run_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> (bool, String) {
        let mut command = self.command(arguments);
        let output = command.envs(variables.iter().copied()).output().expect("kubectl runs");
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    }

    pub fn good(&self, arguments: &[&str]) -> String {
        let (good, said) = self.run(arguments);
        assert!(good, "kubectl {}: {said}", arguments.join(" "));
        said
    }

    pub fn refused(&self, arguments: &[&str], why: &str) {
        let (good, said) = self.run(arguments);
        assert!(!good && said.contains(why), "kubectl {} should say {why:?}: {said}", arguments.join(" "));
    }

    /// Runs a command again and again, for a while, until it succeeds and says what is `right`; what it said then.
    pub fn until(&self, arguments: &[&str], right: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let (good, said) = self.run(arguments);
            if good && right(&said) {
                return said;
            }
            assert!(begun.elapsed() < PATIENCE, "kubectl {}: {said}", arguments.join(" "));
        }
    }

    /// Follows what a command prints until `enough`; `meanwhile` runs after its first line.
    pub fn follow(&self, arguments: &[&str], enough: &str, meanwhile: impl FnOnce()) -> Vec<String> {
        let mut process = self.command(arguments).stdout(Stdio::piped()).spawn().expect("kubectl runs");
        let mut lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        let mut seen = vec![lines.next().expect("a first line").expect("text")];
        meanwhile();
        for line in lines {
            seen.push(line.expect("text"));
            if seen.last().is_some_and(|line| line.contains(enough)) {
                break;
            }
        }
        let _ = process.kill();
        let _ = process.wait();
        seen
    }
}

pub fn in_project(path: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path).display().to_string()
}
