//! `capt doctor`: looks at everything that has to be right, and says what to do about what is not.

mod api;
mod drift;
mod machine;
mod objects;
mod workspaces;

use std::io::{self, Write};

use serde::Serialize;

use super::client::{Target, before_first_start};
use super::live::size;
use super::wrap::hanging;
use super::{Outcome, block_on};

/// Column of the messages, behind verdict and check.
const TEXT: usize = 19;

/// Check this machine, the API, and what fails or is stuck. That is the binary, plugins, data folder, CRDs, permissions,
/// credentials, workspaces and deletions.
///
/// Each line says ok, warn or FAIL, and what to do. Ends with 1 where something fails; that nothing is started yet is no failure.
/// Nothing is changed.
///
/// Examples:
///   capt doctor
///   capt doctor -A -o json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Look at objects of every namespace.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Format of the report.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    target: Target,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Format {
    /// One line for each check, for people.
    #[default]
    Text,
    /// One JSON document, for programs.
    Json,
}

/// Result of a check.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckStatus {
    Ok,
    Warn,
    Fail,
}

/// Finding of a check.
#[derive(Debug, Serialize)]
pub struct CheckFinding {
    check: &'static str,
    verdict: CheckStatus,
    message: String,
    /// One line for each of the objects that it is about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    details: Vec<String>,
    /// Remedy.
    #[serde(rename = "do", skip_serializing_if = "Option::is_none")]
    todo: Option<String>,
}

impl CheckFinding {
    pub fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self { check, verdict: CheckStatus::Ok, message: message.into(), details: Vec::new(), todo: None }
    }

    pub fn warn(check: &'static str, message: impl Into<String>, todo: impl Into<String>) -> Self {
        Self {
            check,
            verdict: CheckStatus::Warn,
            message: message.into(),
            details: Vec::new(),
            todo: Some(todo.into()),
        }
    }

    pub fn fail(check: &'static str, message: impl Into<String>, todo: impl Into<String>) -> Self {
        Self {
            check,
            verdict: CheckStatus::Fail,
            message: message.into(),
            details: Vec::new(),
            todo: Some(todo.into()),
        }
    }
}

pub use api::missing_controller;

pub fn run(args: &Args) -> io::Result<Outcome> {
    let findings = block_on(async { Ok(look(args).await) })?;
    let mut out = anstream::stdout().lock();
    match args.output {
        Format::Text => print(&mut out, &findings, size().map(|(width, _)| width))?,
        Format::Json => {
            serde_json::to_writer_pretty(&mut out, &findings)?;
            writeln!(out)?;
        }
    }
    let failed = findings.iter().any(|finding| finding.verdict == CheckStatus::Fail);
    Ok(if failed { Outcome::Bad } else { Outcome::Good })
}

async fn look(args: &Args) -> Vec<CheckFinding> {
    let connected = args.target.connect().await;
    let folder = match &connected {
        Ok(connection) => connection.folder.clone(),
        Err(_) => args.target.own_folder(),
    };
    let mut findings = machine::look(folder.as_deref());
    match connected {
        Ok(connection) => {
            findings.extend(api::look(&connection).await);
            let namespace = (!args.all_namespaces).then_some(connection.namespace.as_str());
            findings.extend(objects::look(&connection, namespace).await);
        }
        Err(error) if before_first_start(&error) => {
            let flag = args.target.data_dir.iter().map(|folder| format!(" --data-dir {}", folder.display()));
            let up = format!("capt up{}", flag.collect::<String>());
            let todo = format!("start it: {up} --demo, or {up} -f FILE");
            let message = "nothing is started yet: no data folder, and nothing is running";
            findings.push(CheckFinding { todo: Some(todo), ..CheckFinding::ok("api", message) });
        }
        Err(error) => {
            let text = error.to_string();
            let (message, todo) = text.split_once("\n  ").unwrap_or((&text, "start one: capt up"));
            findings.push(CheckFinding::fail("api", message, todo));
        }
    }
    findings
}

/// One line for each check and each thing to do, or several where a terminal has no room.
fn print(out: &mut impl Write, findings: &[CheckFinding], width: Option<usize>) -> io::Result<()> {
    let green = anstyle::AnsiColor::Green.on_default();
    let yellow = anstyle::AnsiColor::Yellow.on_default().bold();
    let red = anstyle::AnsiColor::Red.on_default().bold();
    let cyan = anstyle::AnsiColor::Cyan.on_default();
    for CheckFinding { check, verdict, message, details, todo } in findings {
        let (style, word) = match verdict {
            CheckStatus::Ok => (green, "ok  "),
            CheckStatus::Warn => (yellow, "warn"),
            CheckStatus::Fail => (red, "FAIL"),
        };
        let mut lines = hanging(&format!("{style}{word}{style:#}  {check:<12} {message}"), width, TEXT);
        for detail in details {
            lines.extend(hanging(&format!("{:TEXT$}{detail}", ""), width, TEXT + 2));
        }
        if let Some(todo) = todo {
            lines.extend(hanging(&format!("{:TEXT$}{cyan}do{cyan:#}: {todo}", ""), width, TEXT + 4));
        }
        lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    let count = |wanted| findings.iter().filter(|finding| finding.verdict == wanted).count();
    match (count(CheckStatus::Fail), count(CheckStatus::Warn)) {
        (0, 0) => writeln!(out, "all is well"),
        (failed, warned) => writeln!(out, "{failed} failed, {warned} to look at"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_fits_the_terminal() {
        let details = vec![
            "default/network: it was left behind by a process that is gone, and is not in use".to_owned(),
        ];
        let todo = "run capt on Linux 6.12 or newer, with Landlock; capt up --require-sandbox refuses other machines";
        let findings = [
            CheckFinding {
                details,
                ..CheckFinding::warn("sandbox", "this kernel does not confine runs of Terraform", todo)
            },
            CheckFinding::ok("binary", "OpenTofu 1.10 (/usr/local/bin/tofu)"),
        ];
        let text = |width| {
            let mut out = Vec::new();
            print(&mut out, &findings, width).unwrap();
            anstream::adapter::strip_str(&String::from_utf8(out).unwrap()).to_string()
        };
        let narrow = text(Some(60));
        assert!(narrow.lines().all(|line| line.len() <= 60), "{narrow}");
        let below = narrow.lines().filter(|line| line.starts_with(&" ".repeat(TEXT)));
        assert!(below.count() >= 5, "{narrow}");
        // Programs get lines as they are, and the same words.
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(text(None).lines().count(), 5);
        assert_eq!(words(&narrow), words(&text(None)));
    }
}
