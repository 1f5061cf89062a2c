//! Shell completion, with the names of objects: the shell asks this program at each Tab, and it asks the API, briefly.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::time::Duration;

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::Shells;
use kube::ResourceExt;
use kube::api::ListParams;

use super::client::{Connection, Target};
use super::object::Kind;
use super::{Outcome, block_on};

/// Nobody waits longer for a Tab.
const PATIENCE: Duration = Duration::from_millis(1500);
/// More than that no shell shows.
const MOST: u32 = 500;
/// The variable by which the shell asks.
pub const VARIABLE: &str = "CAPT_COMPLETE";

/// Print the script that completes commands, flags and names of objects in a shell.
///
/// Examples:
///   source <(capt completion bash)                       # in ~/.bashrc
///   source <(capt completion zsh)                        # in ~/.zshrc
///   capt completion fish | source                        # in ~/.config/fish/config.fish
///   capt completion powershell | Out-String | Invoke-Expression
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Shell {
    Bash,
    Elvish,
    Fish,
    Powershell,
    Zsh,
}

impl Shell {
    const fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Elvish => "elvish",
            Self::Fish => "fish",
            Self::Powershell => "powershell",
            Self::Zsh => "zsh",
        }
    }
}

pub fn run(args: &Args) -> io::Result<Outcome> {
    let shells = Shells::builtins();
    let shell = shells.completer(args.shell.name()).expect("every shell of the list is built in");
    let program = std::env::current_exe()?.to_string_lossy().into_owned();
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, "capt", "capt", &program, &mut script)?;
    io::stdout().lock().write_all(&script)?;
    Ok(Outcome::Good)
}

/// Completes workspaces by name and everything else as KIND/NAME.
pub fn objects() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| complete(current, Some("WorkspaceTemplateApply")))
}

/// Completes the one name that a command takes: rollouts are those of deployments, all else is about workspaces.
pub fn which() -> ArgValueCompleter {
    let rollout = std::env::args().any(|word| word == "rollout");
    of(if rollout { "CaptMachineDeployment" } else { "WorkspaceTemplateApply" })
}

/// Completes everything as KIND/NAME.
pub fn any() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| complete(current, None))
}

/// Completes names of one kind.
pub fn of(kind: &'static str) -> ArgValueCompleter {
    ArgValueCompleter::new(move |current: &OsStr| {
        let current = current.to_string_lossy();
        names(kind)
            .into_iter()
            .filter(|name| name.starts_with(&*current))
            .map(CompletionCandidate::new)
            .collect()
    })
}

fn complete(current: &OsStr, bare: Option<&str>) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let mut all: Vec<String> = Vec::new();
    if let Some((word, _)) = current.split_once('/') {
        if let Some(kind) = Kind::meant(word) {
            all = names(&kind.name).into_iter().map(|name| format!("{word}/{name}")).collect();
        }
    } else {
        all.extend(bare.map(names).unwrap_or_default());
        all.extend(Kind::all().iter().map(|kind| format!("{}/", kind.word())));
    }
    all.into_iter().filter(|text| text.starts_with(&*current)).map(CompletionCandidate::new).collect()
}

/// Names of objects of a kind where the words so far point to. Whatever goes wrong, there are none.
fn names(kind: &str) -> Vec<String> {
    let kind = Kind::named(kind);
    let target = target(std::env::args());
    let asked = block_on(async {
        tokio::time::timeout(PATIENCE, async {
            let connection: Connection = target.connect().await?;
            let api = kind.api(&connection, Some(&connection.namespace)).await?;
            let listed = api.list_metadata(&ListParams::default().limit(MOST)).await;
            Ok(listed.map_err(io::Error::other)?.items.iter().map(ResourceExt::name_any).collect())
        })
        .await
        .unwrap_or_else(|_| Ok(Vec::new()))
    });
    asked.unwrap_or_default()
}

/// The API that the flags on the line so far mean.
fn target(words: impl Iterator<Item = String>) -> Target {
    let mut target = Target::default();
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        let (flag, mut value) = match word.split_once('=') {
            Some((flag, value)) => (flag.to_owned(), Some(value.to_owned())),
            None => (word, None),
        };
        let known = ["-n", "--namespace", "--context", "--kubeconfig", "--data-dir"];
        if !known.contains(&flag.as_str()) {
            continue;
        }
        if value.is_none() {
            value = words.peek().cloned();
        }
        match flag.as_str() {
            "--context" => target.context = value,
            "--kubeconfig" => target.kubeconfig = value.map(Into::into),
            "--data-dir" => target.data_dir = value.map(Into::into),
            _ => target.namespace = value,
        }
    }
    target
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_on_the_line_say_which_api() {
        let line = "capt logs -n there --kubeconfig=/k --context c --data-dir /d we";
        let target = target(line.split(' ').map(str::to_owned));
        assert_eq!(target.namespace.as_deref(), Some("there"));
        assert_eq!(target.context.as_deref(), Some("c"));
        assert_eq!(target.kubeconfig, Some("/k".into()));
        assert_eq!(target.data_dir, Some("/d".into()));
    }
}
