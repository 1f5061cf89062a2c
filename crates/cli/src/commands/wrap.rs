//! Reports in lines of the terminal.

use textwrap::core::display_width;
use textwrap::{Options, WordSeparator, WordSplitter};

/// Columns that text has at least beside its indent; with fewer it begins at the left.
const LEAST: usize = 24;

/// A line in lines of this width, those after the first indented; as it is where nobody looks at it in a terminal. Words are broken
/// where the line has no room for them alone. Colours take no room.
pub fn hanging(line: &str, width: Option<usize>, indent: usize) -> Vec<String> {
    let Some(width) = width.filter(|width| display_width(line) > *width) else {
        return vec![line.to_owned()];
    };
    let spaces = " ".repeat(if width < indent + LEAST { 0 } else { indent });
    let options = Options::new(width.max(1))
        .subsequent_indent(&spaces)
        // A path or a name that is broken cannot be copied.
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation);
    textwrap::wrap(line, options).into_iter().map(std::borrow::Cow::into_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_on_below_their_text() {
        let text = "warn  sandbox  this kernel does not confine runs of Terraform-modules to /their/own/files at all";
        let wanted = [
            "warn  sandbox  this kernel does not",
            "               confine runs of",
            "               Terraform-modules to",
            "               /their/own/files at all",
        ];
        assert_eq!(hanging(text, Some(40), 15), wanted);
        assert_eq!(hanging(text, None, 15), [text]);
        assert_eq!(hanging(text, Some(200), 15), [text]);
        // Too narrow for columns.
        let narrow = hanging(text, Some(30), 15);
        assert!(narrow.iter().all(|line| line.len() <= 30 && !line.starts_with(' ')), "{narrow:?}");
        assert_eq!(hanging("a \x1b[31mred\x1b[0m word", Some(10), 2), ["a \x1b[31mred\x1b[0m word"]);
    }
}
