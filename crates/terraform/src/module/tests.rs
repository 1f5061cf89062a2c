use std::fs;
use std::os::unix::ffi::OsStrExt;

use super::*;

fn hcl(text: &str) -> Declared {
    declared(text, Format::Hcl).unwrap_or_else(|problem| panic!("{problem} in {text}"))
}

fn json(text: &str) -> Declared {
    declared(text, Format::Json).unwrap_or_else(|problem| panic!("{problem} in {text}"))
}

const VARIABLES: &str = r#"
variable "with-dash" {}
variable "s" {
  type      = string
  sensitive = true
}
variable "e" {
  type      = list(object({ a = optional(string, "x") }))
  ephemeral = true
  default   = null
}
variable "n" {
  nullable = false
  default  = <<-EOT
    text with ${"template"}
  EOT
}
variable "日本" { default = "x" }
output "o" { value = "${var.n}" }
output "s" {
  value     = var.s
  sensitive = true
}
"#;

#[test]
fn variables_and_outputs() {
    // Terraform reads all three alike.
    let marked = format!("\u{feff}{VARIABLES}");
    let windows = VARIABLES.replace('\n', "\r\n").replace("  ", "\t");
    for text in [VARIABLES, &marked, &windows] {
        let declared = hcl(text);
        let names: Vec<_> = declared.variables.keys().map(String::as_str).collect();
        assert_eq!(names, ["e", "n", "s", "with-dash", "日本"]);
        let plain = Declaration {
            required: true,
            sensitive: false,
            ephemeral: false,
            nullable: true,
            type_text: None,
        };
        assert_eq!(declared.variables["with-dash"], plain);
        assert_eq!(
            declared.variables["s"],
            Declaration { sensitive: true, type_text: Some("string".into()), ..plain.clone() }
        );
        let e = &declared.variables["e"];
        assert!(
            e.ephemeral
                && !e.required
                && e.type_text.as_deref().is_some_and(|text| text.starts_with("list(object("))
        );
        assert!(!declared.variables["n"].nullable);
        assert_eq!(declared.outputs, BTreeMap::from([("o".to_owned(), false), ("s".to_owned(), true)]));
        assert!(declared.builtin_only);
    }
}

#[test]
fn json_declares_the_same() {
    let declared = json(
        r#"{"//": "comment", "variable": {"a": {}, "b": {"default": null, "sensitive": true, "type": "string"}},
            "output": [{"o": {"value": "${var.a}", "sensitive": "true"}}],
            "terraform": [{"required_version": ">= 1.0"}, {"required_providers": {"aws": {"source": "hashicorp/aws"}}}],
            "provider": {"aws": [{}, {"alias": "west"}]}}"#,
    );
    assert!(
        declared.variables["a"].required
            && !declared.variables["b"].required
            && declared.variables["b"].sensitive
    );
    assert!(declared.outputs["o"]);
    assert_eq!(declared.required_version.as_deref(), Some(">= 1.0"));
    assert_eq!(declared.required_providers, BTreeSet::from(["aws".to_owned()]));
    assert_eq!(
        declared.provider_blocks,
        BTreeSet::from([("aws".into(), None), ("aws".into(), Some("west".into()))])
    );
}

/// `tests/binaries.rs` checks with the real Terraform and OpenTofu that each applies without `init`.
#[test]
fn what_needs_no_init() {
    let rows = [
        (true, ""),
        (true, r#"resource "terraform_data" "a" {}"#),
        (
            true,
            "terraform {\n required_version = \">= 1\"\n required_providers {\n terraform = { source = \"terraform.io/builtin/terraform\" }\n }\n}",
        ),
        (true, "provider \"terraform\" {}\ndata \"terraform_remote_state\" \"r\" {}\nlocals { a = 1 }"),
        (true, "removed {\n from = aws_vpc.x\n}\nmoved {\n from = aws_vpc.a\n to = aws_vpc.b\n}"),
        (false, r#"resource "aws_vpc" "a" {}"#),
        (false, r#"resource "terraform_data" "a" { provider = aws }"#),
        (false, r#"resource "terraform_data" "a" { provider = aws.west }"#),
        (false, r#"provider "aws" {}"#),
        (false, "terraform {\n required_providers {\n aws = \"~> 5\"\n }\n}"),
        (
            false,
            "terraform {\n required_providers {\n terraform = { source = \"me/terraform\" }\n }\n}\nresource \"terraform_data\" \"a\" {}",
        ),
        (false, "terraform {\n backend \"local\" {}\n}"),
        (false, "import {\n to = aws_vpc.x[\"a\"]\n id = \"a\"\n}"),
        (true, "import {\n to = terraform_data.x\n id = \"a\"\n}"),
        (false, "check \"c\" {\n data \"http\" \"x\" {}\n}"),
        (false, r#"ephemeral "random_password" "x" {}"#),
        (false, "module \"m\" {\n source = \"./m\"\n}"),
        (false, r#"action "aws_thing" "x" {}"#),
    ];
    for (expected, text) in rows {
        assert_eq!(hcl(text).builtin_only, expected, "{text}");
    }
    let rows = [
        (
            true,
            r#"{"resource": {"terraform_data": {"a": {}}}, "import": [{"to": "terraform_data.a", "id": "x"}]}"#,
        ),
        (false, r#"{"resource": [{"terraform_data": {"a": [{"provider": "${aws.west}"}]}}]}"#),
        (false, r#"{"check": {"c": {"data": {"http": {"x": {}}}}}}"#),
        (false, r#"{"module": {"m": {"source": "./m"}}}"#),
        (false, r#"{"terraform": {"backend": {"local": {}}}}"#),
    ];
    for (expected, text) in rows {
        assert_eq!(json(text).builtin_only, expected, "{text}");
    }
}

#[test]
fn an_encryption_block_is_refused_wherever_it_stands() {
    let block = "terraform {\n  encryption {\n    key_provider \"external\" \"x\" {\n      command = [\"sh\"]\n    }\n  }\n}\n";
    assert!(hcl(block).refused.is_some());
    assert!(json(r#"{"terraform": {"encr\u0079ption": {}}}"#).refused.is_some());
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("write");
    let refused =
        |tofu| declared_in_folder(folder.path(), tofu).is_ok_and(|declared| declared.refused.is_some());
    write("main.tf", "");
    assert!(!refused(true));
    write("x_override.tf", block);
    assert!(refused(false), "in what overrides others");
    write("x_override.tf", "");
    write("text", block);
    std::os::unix::fs::symlink("text", folder.path().join("linked.tf")).expect("linked");
    assert!(refused(true), "behind a link");
    fs::remove_file(folder.path().join("linked.tf")).expect("removed");
    std::os::unix::fs::symlink("/etc/hostname", folder.path().join("linked.tf")).expect("linked");
    assert!(refused(true), "a link that leads out");
    fs::remove_file(folder.path().join("linked.tf")).expect("removed");
    write("odd.tf", &format!("{block} ]]"));
    assert!(refused(true), "in what is not understood");
    write("odd.tf", "]]");
    declared_in_folder(folder.path(), true).expect_err("a hint only");
    fs::remove_file(folder.path().join("odd.tf")).expect("removed");

    // Names and JSON that OpenTofu reads, each in its own way.
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let escaped = format!(r#"{{"locals": {{"x": {deep}}}, "terraform": {{"\u0065ncryption": {{}}}}}}"#);
    let rows: [(&[u8], &str); 4] = [
        (b"#x.tofu", block),
        (b"\xffx.tofu", block),
        (b"twice.tofu.json", r#"{"terraform": {"encryption": {}}, "terraform": {}}"#),
        (b"deep.tofu.json", &escaped),
    ];
    for (name, text) in rows {
        let path = folder.path().join(std::ffi::OsStr::from_bytes(name));
        fs::write(&path, text).expect("write");
        assert!(refused(true), "{}", path.display());
        fs::remove_file(path).expect("removed");
    }
    write("#left by an editor.tf#", block);
    assert!(!refused(true));
}

#[test]
fn a_backend_in_what_overrides_others_counts() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("override.tf"), "terraform {\n  backend \"s3\" {}\n}\n").expect("write");
    let declared = declared_in_folder(folder.path(), false).expect("a module");
    assert_eq!(declared.backend.map(|backend| backend.kind).as_deref(), Some("s3"));
    assert!(!declared.builtin_only);
}

#[test]
fn a_cloud_block_is_refused_by_name() {
    let refused =
        hcl("# a\nterraform {\n  cloud {\n    organization = \"o\"\n  }\n}").refused.expect("refused");
    assert_eq!(refused.line, Some(3));
    assert!(refused.to_string().contains("`cloud` block"), "{refused}");
    assert!(json(r#"{"terraform": {"cloud": {}}}"#).refused.is_some());
    assert!(hcl("terraform {\n backend \"s3\" {}\n}").refused.is_none());
}

#[test]
fn a_problem_has_its_place() {
    let problem = declared("a = 1\nresource \"x\" {\n  y = \n}\n", Format::Hcl).expect_err("a problem");
    assert_eq!(problem.line, Some(3), "{problem}");
    let problem = declared("{\n \"a\": }", Format::Json).expect_err("a problem");
    assert_eq!(problem.line, Some(2), "{problem}");
    assert!(!Declared::default().builtin_only);
    // No text, however deep, takes the process down.
    for deep in [
        "[".repeat(100_000),
        "x = ".to_owned() + &"(".repeat(100_000),
        "a {\n".repeat(50_000),
        "{\"a\":".repeat(100_000),
    ] {
        declared(&deep, Format::Hcl).expect_err("too deep");
        declared(&deep, Format::Json).expect_err("too deep");
    }
}

#[test]
fn five_megabytes_are_read() {
    let line =
        "resource \"terraform_data\" \"r\" {\n  input = { a = \"b${upper(\"c\")}\", d = [1, 2, 3] }\n}\n";
    assert!(hcl(&line.repeat(5_000_000 / line.len())).builtin_only);
}

#[test]
fn a_folder_is_all_its_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    write("a.tf", "variable \"a\" {}");
    write("b.tf.json", r#"{"variable": {"b": {}}}"#);
    write("c_override.tf", "variable \"c\" {}");
    write("override.tf.json", "nonsense");
    write(".hidden.tf", "nonsense");
    write("backup.tf~", "nonsense");
    write("e.tf", "variable \"e\" {}");
    write("e.tofu", "variable \"f\" {}");
    write("README.md", "nonsense");
    let names = |tofu| {
        declared_in_folder(folder.path(), tofu).expect("a module").variables.into_keys().collect::<Vec<_>>()
    };
    assert_eq!(names(false), ["a", "b", "e"]);
    assert_eq!(names(true), ["a", "b", "f"]);
    write("broken.tf", "\n}");
    let problem = declared_in_folder(folder.path(), false).expect_err("a problem");
    assert_eq!(problem.file.as_deref(), Some("broken.tf"));
}

const CONFIGURATION: &str = r#"# Ours.
terraform {
  required_version = ">= 1.0"
  required_providers {
    aws    = { source = "hashicorp/aws" }
    random = { source = "hashicorp/random" }
  }
}
provider "aws" {
  region = "eu-west-1"
}
provider "aws" {
  alias  = "west"
  region = "us-west-1"
}
"#;

#[test]
fn a_configuration_gives_way_to_the_module() {
    let module = hcl(
        "terraform {\n required_providers {\n  aws = \"~> 5\"\n }\n}\nprovider \"aws\" {\n alias = \"west\"\n}",
    );
    let fitted = with_configuration(&module, CONFIGURATION);
    let overrides = fitted.overrides.expect("random is left");
    for text in [&fitted.text, &overrides] {
        assert_eq!(text.lines().count(), CONFIGURATION.lines().count(), "lines stay where they are");
    }
    assert!(!fitted.text.contains("required_providers") && fitted.text.contains("required_version"));
    assert!(fitted.text.contains("eu-west-1") && !fitted.text.contains("us-west-1"));
    assert!(
        overrides.contains("random")
            && !overrides.contains("hashicorp/aws")
            && !overrides.contains("required_version")
    );
    assert!(!overrides.contains("provider \"aws\""));
    let line = |text: &str| text.lines().position(|line| line.contains("random")).expect("a line");
    assert_eq!(line(&overrides), line(CONFIGURATION));
    assert_eq!(fitted.declared.providers, BTreeSet::from(["aws".to_owned(), "random".to_owned()]));
    assert!(!fitted.declared.builtin_only);
}

#[test]
fn a_configuration_with_nothing_left_to_override() {
    let module = hcl("terraform {\n required_providers {\n  aws = \"~> 5\"\n  random = \"~> 3\"\n }\n}");
    assert_eq!(with_configuration(&module, CONFIGURATION).overrides, None);
    let fitted = with_configuration(&hcl(""), "");
    assert_eq!((fitted.text.as_str(), fitted.overrides), ("", None));
    assert!(fitted.declared.builtin_only);
}

#[test]
fn a_configuration_nobody_can_read_is_passed_on() {
    let fitted = with_configuration(&hcl(""), "provider \"aws\" {");
    assert_eq!(fitted.text, "provider \"aws\" {");
    assert!(!fitted.declared.builtin_only);
    let refused = with_configuration(&hcl(""), "terraform {\n cloud {}\n}").declared.refused;
    assert!(refused.is_some());
}
