//! Commands and their options, from clap.

use std::fmt::Write;

use clap::{Arg, Command};

use super::super::client::HEADING as SHARED;
use super::super::help;
use super::plain;

pub fn page() -> String {
    let mut root = help::command();
    root.build();
    let mut text = String::from(
        "<!-- Made by `make docs` from the program itself: edit the texts there. -->\n\n# Command line\n\n",
    );
    // Writing to a String cannot fail.
    let _ = write_root(&mut text, &root);
    text
}

/// The options that choose an API are described once.
fn write_root(text: &mut String, root: &Command) -> std::fmt::Result {
    for line in root.get_after_help().map(ToString::to_string).unwrap_or_default().lines() {
        writeln!(text, "- {}", plain(line))?;
    }
    let shared = commands(root).find_map(|command| {
        let options: Vec<Arg> = options(command).filter(|option| is_shared(option)).cloned().collect();
        (!options.is_empty()).then_some(options)
    });
    writeln!(text, "\n## {SHARED}\n\nEvery command that talks to an API takes these too:\n")?;
    for option in shared.iter().flatten() {
        write_argument(text, option)?;
    }
    for command in commands(root) {
        write_command(text, command, "capt", 2)?;
    }
    Ok(())
}

/// Commands that people see, in order.
fn commands(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help")
}

fn options(command: &Command) -> impl Iterator<Item = &Arg> {
    let own = |arg: &&Arg| !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version");
    command.get_arguments().filter(own)
}

fn is_shared(option: &Arg) -> bool {
    option.get_help_heading() == Some(SHARED)
}

fn write_command(text: &mut String, command: &Command, above: &str, level: usize) -> std::fmt::Result {
    let name = format!("{above} {}", command.get_name());
    writeln!(text, "\n{} {name}\n", "#".repeat(level))?;
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let (words, examples) = about.split_once("Examples:\n").unwrap_or((&about, ""));
    writeln!(text, "{}\n", plain(words.trim()))?;
    let usage = command.clone().render_usage().to_string();
    writeln!(text, "```console\n{}", usage.trim_start_matches("Usage: ").trim())?;
    writeln!(text, "```\n")?;
    if !examples.is_empty() {
        writeln!(text, "Examples:\n\n```console")?;
        for line in examples.trim_end().lines() {
            writeln!(text, "{}", line.strip_prefix("  ").unwrap_or(line))?;
        }
        writeln!(text, "```\n")?;
    }
    for option in options(command).filter(|option| !is_shared(option)) {
        write_argument(text, option)?;
    }
    if options(command).any(is_shared) {
        writeln!(text, "- and those of [{SHARED}](#which-api)")?;
    }
    for command in commands(command) {
        write_command(text, command, &name, level + 1)?;
    }
    Ok(())
}

fn write_argument(text: &mut String, option: &Arg) -> std::fmt::Result {
    let value = option.get_value_names().map(|names| names.join(" "));
    let takes = option.get_action().takes_values();
    let value = value.filter(|_| takes).map(|name| format!(" <{name}>")).unwrap_or_default();
    let mut names = Vec::new();
    names.extend(option.get_short().map(|short| format!("`-{short}`")));
    names.extend(option.get_long().map(|long| format!("`--{long}{value}`")));
    if names.is_empty() {
        names.push(format!("`{}`", value.trim()));
    }
    let help = option.get_help().map(ToString::to_string).unwrap_or_default();
    // clap takes the last full stop of a text.
    let stop = if help.ends_with(['.', ']', ')']) { "" } else { "." };
    write!(text, "- {}: {}{stop}", names.join(", "), plain(&help))?;
    let values: Vec<String> = option
        .get_possible_values()
        .iter()
        .filter(|value| takes && !value.is_hide_set())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if !values.is_empty() {
        write!(text, " One of {}.", values.join(", "))?;
    }
    let defaults: Vec<_> = option.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if !defaults.is_empty() && takes {
        write!(text, " Default: `{}`.", defaults.join(" "))?;
    }
    writeln!(text)
}
