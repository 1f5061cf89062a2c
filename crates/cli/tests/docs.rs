//! The documentation holds together: every page is in the book, every link leads somewhere, every manifest is valid, and both
//! READMEs say the same.
//!
//! Markdown is read only as far as that needs it: fences, headings, code spans and inline links.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A page, as far as it matters here.
#[derive(Default)]
struct Page {
    /// Levels of its headings, in order.
    headings: Vec<usize>,
    /// Where links to its headings lead.
    anchors: BTreeSet<String>,
    /// Line and target of each link and picture.
    links: Vec<(usize, String)>,
    /// Its blocks of code.
    blocks: Vec<String>,
    /// Line and text of each manifest: a block of YAML that has an apiVersion.
    manifests: Vec<(usize, String)>,
}

/// A block of code that has not ended.
struct Open {
    fence: String,
    yaml: bool,
    line: usize,
    text: String,
}

impl Page {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self::of(&text)
    }

    fn of(text: &str) -> Self {
        let mut page = Self::default();
        let mut seen: HashMap<String, usize> = HashMap::new();
        let mut open: Option<Open> = None;
        for (number, line) in text.lines().enumerate() {
            let fence: String = line.trim_start().chars().take_while(|c| *c == '`').collect();
            open = match open {
                Some(block) if fence.len() >= block.fence.len() && line.trim() == fence => {
                    if block.yaml && block.text.contains("apiVersion:") {
                        page.manifests.push((block.line, block.text.clone()));
                    }
                    page.blocks.push(block.text);
                    None
                }
                Some(block) => Some(Open { text: block.text + line + "\n", ..block }),
                None if fence.len() >= 3 => {
                    let yaml = ["yaml", "yml"].contains(&line.trim().trim_start_matches('`').trim());
                    Some(Open { fence, yaml, line: number + 1, text: String::new() })
                }
                None => {
                    page.line(number + 1, line, &mut seen);
                    None
                }
            };
        }
        assert!(open.is_none(), "a block of code has no end");
        page
    }

    /// A line that is not code.
    fn line(&mut self, number: usize, line: &str, seen: &mut HashMap<String, usize>) {
        let level = line.chars().take_while(|c| *c == '#').count();
        if (1..=6).contains(&level) && line[level..].starts_with(' ') {
            let anchor = anchor(&line[level..]);
            let times = seen.entry(anchor.clone()).or_default();
            let suffix = if *times == 0 { String::new() } else { format!("-{times}") };
            *times += 1;
            self.headings.push(level);
            self.anchors.insert(anchor + &suffix);
        }
        let text = without_code(line);
        for part in text.split("](").skip(1) {
            if let Some((target, _)) = part.split_once(')') {
                self.links.push((number, target.to_owned()));
            }
        }
    }
}

/// What a heading is called in links, by GitHub and by mdBook.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>().to_lowercase()
}

/// Code spans hold no links.
fn without_code(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some(start) = rest.find('`') {
        let (before, from) = rest.split_at(start);
        let ticks: String = from.chars().take_while(|c| *c == '`').collect();
        let after = &from[ticks.len()..];
        text += before;
        // A span that goes on in the next line is left as it is.
        rest = after.find(&ticks).map_or(after, |end| &after[end + ticks.len()..]);
    }
    text + rest
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the crate is in the tree")
}

/// Pages in a folder and those below it.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("a folder can be listed").path();
        if path.is_dir() {
            found.extend(pages(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found
}

/// Where a link leads: the file and the heading. None for what is elsewhere in the world.
fn target(page: &Path, link: &str) -> Option<(PathBuf, String)> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    let path = if file.is_empty() {
        page.to_owned()
    } else {
        page.parent().expect("a page is in a folder").join(file)
    };
    Some((path, heading.to_owned()))
}

#[test]
fn the_book_has_every_page_and_every_page_is_in_the_book() {
    let docs = root().join("docs");
    let summary = Page::read(&docs.join("SUMMARY.md"));
    let mut named = BTreeSet::new();
    for (line, link) in &summary.links {
        let path = docs.join(link);
        assert!(path.is_file(), "SUMMARY.md:{line}: {link} does not exist");
        assert!(named.insert(path), "SUMMARY.md:{line}: {link} is there twice");
    }
    for page in pages(&docs).into_iter().filter(|page| !page.ends_with("SUMMARY.md")) {
        assert!(named.contains(&page), "{} is not in SUMMARY.md", page.display());
    }
}

#[test]
fn every_link_leads_somewhere() {
    let root = root();
    let docs = root.join("docs");
    let mut all = pages(&docs);
    all.extend(pages(&root.join("examples")));
    let own = ["README.md", "README.ja.md", "CONTRIBUTING.md", "CHANGELOG.md"];
    all.extend(own.iter().map(|name| root.join(name)));
    let mut wrong = Vec::new();
    let mut checked = 0;
    for path in &all {
        for (line, link) in Page::read(path).links {
            let Some((file, heading)) = target(path, &link) else { continue };
            checked += 1;
            let place = format!("{}:{line}: {link}", path.strip_prefix(&root).unwrap_or(path).display());
            let Ok(found) = file.canonicalize() else {
                wrong.push(format!("{place}: there is no such file"));
                continue;
            };
            if path.starts_with(&docs) && !found.starts_with(&docs) {
                wrong.push(format!("{place}: is not in the book: name it without a link"));
            }
            let is_there = || found.is_file() && Page::read(&found).anchors.contains(&heading);
            if !heading.is_empty() && !is_there() {
                wrong.push(format!("{place}: there is no such heading"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 50, "only {checked} links were found");
}

/// Each alone, as a reader pastes it, and without a warning.
#[test]
fn every_manifest_is_valid() {
    let root = root();
    let mut all = pages(&root.join("docs"));
    all.extend(["README.md", "README.ja.md"].iter().map(|name| root.join(name)));
    let lab = tempfile::tempdir().expect("a folder");
    let mut wrong = Vec::new();
    let mut checked = 0;
    for path in &all {
        for (line, text) in Page::read(path).manifests {
            checked += 1;
            let page = path.strip_prefix(&root).unwrap_or(path).display().to_string();
            let file = lab.path().join(format!("{}-{line}.yaml", page.replace('/', "-")));
            fs::write(&file, text).expect("a file");
            let mut validate = Command::new(env!("CARGO_BIN_EXE_capt"));
            let output = validate.args(["validate", "-f"]).arg(&file).output().expect("capt runs");
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            if !output.status.success() || !said.starts_with("ok: ") {
                wrong.push(format!("{page}:{line}: {said}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked >= 10, "only {checked} manifests were found");
}

#[test]
fn both_readmes_say_the_same() {
    let root = root();
    let (english, japanese) = (Page::read(&root.join("README.md")), Page::read(&root.join("README.ja.md")));
    assert_eq!(english.headings, japanese.headings, "headings");
    // Comments of commands are translated; commands are not.
    let code = |page: &Page| -> Vec<String> {
        let lines = page.blocks.iter().flat_map(|block| block.lines().chain(["---"]));
        lines.map(|line| line.split(" # ").next().unwrap_or(line).trim_end().to_owned()).collect()
    };
    assert_eq!(code(&english), code(&japanese), "blocks of code");
    let links = |page: &Page| -> Vec<String> {
        let mut links: Vec<_> = page.links.iter().map(|(_, link)| link.clone()).collect();
        links.retain(|link| !link.starts_with("README"));
        links.sort();
        links
    };
    assert_eq!(links(&english), links(&japanese), "links");
}

#[test]
fn markdown_is_read_as_it_is_meant() {
    let page = Page::of(
        "# One `two`: three's\n[a](b.md#c) `[no](x)` ![d](e.svg)\n````text\n```\n# no\n````\n## Twice\n## Twice\n",
    );
    assert_eq!(page.headings, [1, 2, 2]);
    assert_eq!(page.anchors.into_iter().collect::<Vec<_>>(), ["one-two-threes", "twice", "twice-1"]);
    assert_eq!(page.links, [(2, "b.md#c".to_owned()), (2, "e.svg".to_owned())]);
    assert_eq!(page.blocks, ["```\n# no\n"]);
    assert!(page.manifests.is_empty());
    let page = Page::of(
        "- a\n  ```yaml\n  apiVersion: v1\n  ```\n```yaml\nspec: {}\n```\n```sh\napiVersion: v1\n```\n",
    );
    assert_eq!(page.manifests, [(2, "  apiVersion: v1\n".to_owned())]);
}
