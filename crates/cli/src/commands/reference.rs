//! `capt reference`: the pages of `docs/reference`, made from what the program itself knows.

mod api;
mod cli;

use std::io::{self, Write};

use super::Outcome;

/// Print a page of the reference, as Markdown.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Page to print.
    #[arg(value_enum)]
    page: Page,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Page {
    /// Kinds and their fields.
    Api,
    /// Commands and their options.
    Cli,
}

pub fn run(args: &Args) -> io::Result<Outcome> {
    let text = match args.page {
        Page::Api => api::page(),
        Page::Cli => cli::page(),
    };
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(Outcome::Good)
}

/// Text as it is, where Markdown would read something into it. What stands in backticks is left alone.
fn plain(text: &str) -> String {
    let mut quoted = false;
    let mut result = String::with_capacity(text.len());
    for letter in text.chars() {
        quoted ^= letter == '`';
        if !quoted && matches!(letter, '<' | '*' | '_' | '|') {
            result.push('\\');
        }
        result.push(letter);
    }
    result
}
