//! `capt validate`: checks manifests offline, with the schemas and rules of the CRDs.

use std::io::{self, Write};
use std::path::PathBuf;

use super::Outcome;
use crate::manifest::Origin;
use crate::validate::{Report, Severity, check};

/// Check manifests offline, as the API and the controllers would.
///
/// Reports fields that the API server would refuse or drop, with file, line and what to write
/// instead; then what no run could work with: inline modules and provider configs that are no
/// HCL, required variables without a value, values of another type, outputs that a module does
/// not have. Variables that a module does not declare and references to objects that are not
/// among the files are warnings. Objects of other kinds are counted and not checked.
///
/// Examples:
///   capt validate -f cluster.yaml -f machines/
///   capt validate -R -f deploy -o json
///   git show HEAD:cluster.yaml | capt validate -f cluster.yaml --against -
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
#[command(
    after_help = "Exit codes: 0 nothing is wrong, though there may be warnings; 1 something is wrong; 2 wrong usage."
)]
pub struct Args {
    /// Files, or folders with *.yaml, *.yml and *.json files; - is standard input.
    #[arg(short, long = "filename", value_name = "FILE|DIR", required = true, num_args = 1..)]
    files: Vec<PathBuf>,
    /// Look into the folders of folders too.
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Earlier version of the manifests: checks the change from there too, such as immutable fields.
    #[arg(long, value_name = "FILE|DIR", num_args = 1..)]
    against: Vec<PathBuf>,
    /// Format of the report.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Format {
    /// One line for each problem, for people.
    #[default]
    Text,
    /// One JSON document, for programs.
    Json,
}

pub fn run(args: &Args) -> io::Result<Outcome> {
    let origin = |path: &PathBuf| Origin::from_argument(path, args.recursive);
    let new: Vec<Origin> = args.files.iter().map(origin).collect();
    let old: Vec<Origin> = args.against.iter().map(origin).collect();
    let report = check(&new, &old);
    match args.output {
        Format::Text => print_text(&report)?,
        Format::Json => {
            let mut out = io::stdout().lock();
            serde_json::to_writer_pretty(&mut out, &report)?;
            writeln!(out)?;
        }
    }
    Ok(if report.is_good() { Outcome::Good } else { Outcome::Bad })
}

/// One line for each problem, with help, and a summary.
pub fn print_text(report: &Report) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    print_findings(&mut out, report)?;
    writeln!(out, "{}", report.summary)
}

/// One line for each problem, with help.
pub fn print_findings(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let red = anstyle::AnsiColor::Red.on_default().bold();
    let yellow = anstyle::AnsiColor::Yellow.on_default().bold();
    let cyan = anstyle::AnsiColor::Cyan.on_default();
    for finding in &report.findings {
        match finding.severity {
            Severity::Error => write!(out, "{}: {red}error{red:#}: ", finding.place)?,
            Severity::Warning => write!(out, "{}: {yellow}warning{yellow:#}: ", finding.place)?,
        }
        if let Some(object) = &finding.object {
            write!(out, "{object}: ")?;
        }
        if let Some(path) = &finding.path {
            write!(out, "{path}: ")?;
        }
        writeln!(out, "{}", finding.message)?;
        if let Some(help) = &finding.help {
            writeln!(out, "    {cyan}help{cyan:#}: {help}")?;
        }
    }
    Ok(())
}
