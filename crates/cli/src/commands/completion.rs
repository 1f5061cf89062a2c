//! Shell completion, with the names of objects: the shell asks this program at each Tab, and it asks the API, briefly.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::time::Duration;

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::Shells;
use kube::ResourceExt;
use kube::api::ListParams;

use super::client::{Connection, Target};
use super::object::{Accepts, ResourceKind};
use super::{Outcome, block_on};

/// Nobody waits longer for a Tab.
const PATIENCE: Duration = Duration::from_millis(1500);
/// More than that no shell shows.
const MOST: u32 = 500;
/// Flags that choose an API, each with a value.
const TARGET: [&str; 5] = ["-n", "--namespace", "--context", "--kubeconfig", "--data-dir"];
/// The variable by which the shell asks.
pub const VARIABLE: &str = "CAPT_COMPLETE";

/// Print the script for completion in a shell. It completes commands, flags and names of objects.
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

/// Completes the objects that a command accepts: NAME, KIND/NAME, and NAME after a KIND.
pub fn objects(accepts: &'static Accepts) -> ArgValueCompleter {
    ArgValueCompleter::new(move |current: &OsStr| {
        let current = current.to_string_lossy();
        candidates(accepts, &current, kind_before(std::env::args()), names)
            .into_iter()
            .filter(|text| text.starts_with(&*current))
            .map(CompletionCandidate::new)
            .collect()
    })
}

fn candidates(
    accepts: &Accepts,
    current: &str,
    before: Option<&'static ResourceKind>,
    names: impl Fn(&'static ResourceKind) -> Vec<String>,
) -> Vec<String> {
    if let Some((word, _)) = current.split_once('/') {
        let kind = ResourceKind::meant(word).filter(|kind| accepts.admits(kind));
        return kind.map(names).unwrap_or_default().iter().map(|name| format!("{word}/{name}")).collect();
    }
    if let Some(kind) = before.filter(|kind| accepts.admits(kind)) {
        return names(kind);
    }
    let mut all = accepts.default_kind().map(names).unwrap_or_default();
    all.extend(accepts.kinds().into_iter().map(|kind| format!("{}/", kind.word())));
    all
}

/// The kind that an earlier word of the line names: `capt delete cluster …`.
fn kind_before(words: impl Iterator<Item = String>) -> Option<&'static ResourceKind> {
    let words: Vec<String> = words.collect();
    let (_, before) = words.split_last()?;
    let mut value = false;
    before.iter().find_map(|word| {
        let is_value = std::mem::replace(&mut value, TARGET.contains(&word.as_str()));
        ResourceKind::meant(word).filter(|_| !is_value)
    })
}

/// Names of objects of a kind where the words so far point to. Whatever goes wrong, there are none.
fn names(kind: &'static ResourceKind) -> Vec<String> {
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
        if !TARGET.contains(&flag.as_str()) {
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

    #[test]
    fn a_kind_before_the_word_chooses_the_names() {
        let names = |kind: &'static ResourceKind| vec![format!("one-{}", kind.word())];
        let completed = |accepts: &Accepts, line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let current = words.last().cloned().unwrap_or_default();
            candidates(accepts, &current, kind_before(words.into_iter()), names).join(" ")
        };
        let rows: [(&Accepts, &str, &str); 7] = [
            (&Accepts::ANY, "capt delete cluster ", "one-cluster"),
            (&Accepts::ANY, "capt delete Clusters.cluster.x-k8s.io a b", "one-cluster"),
            (&Accepts::ANY, "capt delete CMD/", "CMD/one-captmachinedeployment"),
            (&Accepts::ANY, "capt delete pod/", ""),
            (&Accepts::CLUSTER, "capt kubeconfig -n nodegroup ", "one-cluster cluster/"),
            (
                &Accepts::SCALABLE,
                "capt scale ",
                "one-captmachinedeployment captmachinedeployment/ captmachineset/",
            ),
            (&Accepts::SCALABLE, "capt scale cluster/", ""),
        ];
        for (accepts, line, expected) in rows {
            assert_eq!(completed(accepts, line), expected, "{line}");
        }
    }
}
