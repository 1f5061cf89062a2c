//! The command line as a whole: help in groups, and flags that name an API before the subcommand.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;

use clap::{Command, CommandFactory};

use super::Cli;

/// Subcommands by what people want of them; `help` is clap's own.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Start", &["up", "server", "controller"]),
    ("Look", &["status", "events", "logs", "plan", "kubeconfig"]),
    (
        "Act",
        &[
            "approve",
            "retry",
            "cancel",
            "pause",
            "resume",
            "scale",
            "rollout",
            "delete",
            "import-state",
            "state",
        ],
    ),
    ("Check", &["validate", "doctor", "version"]),
    ("Other", &["migrate", "crds", "completion", "help"]),
];

/// Flags with a value that choose an API and a namespace: they may stand before the subcommand, as kubectl takes them.
const BEFORE: [&str; 5] = ["-n", "--namespace", "--kubeconfig", "--context", "--data-dir"];

/// The command line, with its help as people read it.
pub fn command() -> Command {
    let command = Cli::command().mut_subcommands(in_paragraphs);
    let groups = groups(&command);
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{groups}\nOptions:\n{{options}}{{after-help}}"
    ))
}

/// The subcommands, one a line below the heading of their group.
fn groups(command: &Command) -> String {
    let mut text = String::new();
    for (heading, names) in GROUPS {
        // Writing to a String never fails.
        let _ = writeln!(text, "\n{heading}:");
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string);
            let about = about.unwrap_or_else(|| "Print the help of a command.".to_owned());
            let first = about.split_once(". ").map_or(about.as_str(), |(first, _)| first);
            let _ = writeln!(text, "  {name:<13} {}", first.trim_end_matches('.'));
        }
    }
    text
}

/// Help texts are written in lines of the source: paragraphs are joined, and wrapped once, by the terminal's width.
fn in_paragraphs(command: Command) -> Command {
    let long = command.get_long_about().map(ToString::to_string);
    let command = match long {
        Some(long) => command.long_about(joined(&long)),
        None => command,
    };
    command.mut_subcommands(in_paragraphs)
}

/// A text with the lines of each paragraph joined; examples and lists keep theirs.
fn joined(text: &str) -> String {
    let keeps_lines = |paragraph: &str| paragraph.lines().any(|line| line.starts_with(' '));
    let paragraphs = text.split("\n\n").map(|paragraph| {
        if keeps_lines(paragraph) { paragraph.to_owned() } else { paragraph.replace('\n', " ") }
    });
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

/// Arguments with the flags that stand before the subcommand put behind it, where each command takes its own.
pub fn arguments(given: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut given = given.into_iter().peekable();
    let mut arguments: Vec<OsString> = given.next().into_iter().collect();
    let mut moved = Vec::new();
    while let Some(flag) = given.next_if(|argument| is_before(argument)) {
        let has_value = flag.as_encoded_bytes().contains(&b'=') || is_short_with_value(&flag);
        moved.push(flag);
        moved.extend(if has_value { None } else { given.next() });
    }
    let rest: Vec<OsString> = given.collect();
    // Behind `--` nothing is a flag.
    let end = rest.iter().position(|argument| argument == "--").unwrap_or(rest.len());
    let (before, after) = rest.split_at(end);
    if before.is_empty() {
        // Nobody to give them to: the error names them.
        arguments.extend(moved);
        arguments.extend(rest);
        return arguments;
    }
    arguments.extend(before.iter().cloned().chain(moved).chain(after.iter().cloned()));
    arguments
}

fn is_before(argument: &OsStr) -> bool {
    let Some(text) = argument.to_str() else { return false };
    let name = text.split_once('=').map_or(text, |(name, _)| name);
    BEFORE.contains(&name) || is_short_with_value(argument)
}

/// `-nNAME`.
fn is_short_with_value(argument: &OsStr) -> bool {
    argument.to_str().is_some_and(|text| text.starts_with("-n") && text.len() > 2 && !text.starts_with("--"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_command_has_one_group() {
        let command = command();
        let visible = command.get_subcommands().filter(|command| !command.is_hide_set());
        let all: BTreeSet<&str> = visible.map(Command::get_name).chain(["help"]).collect();
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        assert_eq!(grouped.iter().copied().collect::<BTreeSet<_>>(), all);
        assert_eq!(grouped.len(), all.len(), "none stands twice");
        assert_eq!(grouped[0], "up");
    }

    #[test]
    fn help_fits_a_terminal() {
        let help = command().render_help().to_string();
        let long: Vec<&str> = help.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(long.iter().all(|line| !line.starts_with("  ")), "{long:#?}");
        assert!(help.find("Start:") < help.find("  up  ") && help.contains("\nOptions:\n"), "{help}");
    }

    #[test]
    fn paragraphs_are_joined_and_examples_are_not() {
        let text = "One\nline.\n\nExamples:\n  a\n  b\n\nTwo\nlines.";
        assert_eq!(joined(text), "One line.\n\nExamples:\n  a\n  b\n\nTwo lines.");
    }

    #[test]
    fn flags_before_the_command_are_its_own() {
        let rows = [
            ("capt status", "capt status"),
            ("capt -n a status web", "capt status web -n a"),
            (
                "capt --namespace=a --context c rollout status web",
                "capt rollout status web --namespace=a --context c",
            ),
            ("capt -na --data-dir d status -w", "capt status -w -na --data-dir d"),
            ("capt -n a logs x -- y", "capt logs x -n a -- y"),
            ("capt -n a", "capt -n a"),
            ("capt --version", "capt --version"),
            ("capt status -n a", "capt status -n a"),
            ("capt -n", "capt -n"),
        ];
        for (given, expected) in rows {
            let given = given.split(' ').map(OsString::from);
            let found: Vec<String> =
                arguments(given).into_iter().map(|it| it.into_string().unwrap()).collect();
            assert_eq!(found.join(" "), expected);
        }
    }
}
