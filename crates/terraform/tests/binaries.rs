//! What this crate believes about modules, asked of real Terraform and real OpenTofu.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use capt_e2e::{Peer, Peers};
use capt_terraform::{
    module::{self, Configuration, Format},
    state::State,
    stream::{self, Tally},
};

/// Those that are here. Terraform comes from the machine, OpenTofu from the peers.
fn binaries() -> Vec<PathBuf> {
    let on_path =
        env::var_os("PATH").into_iter().flat_map(|path| env::split_paths(&path).collect::<Vec<_>>());
    let terraform = on_path.map(|folder| folder.join("terraform")).find(|file| file.is_file());
    let tofu = Peers::find_or_skip(&[Peer::Tofu]).map(|peers| peers.path(Peer::Tofu));
    terraform.into_iter().chain(tofu).collect()
}

/// Runs one command in a folder: what it printed, and whether it passed.
fn run(binary: &Path, folder: &Path, arguments: &[&str]) -> (String, bool) {
    let output = Command::new(binary)
        .args(arguments)
        .current_dir(folder)
        .env("CHECKPOINT_DISABLE", "1")
        .env_remove("TF_CLI_CONFIG_FILE")
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", binary.display()));
    let said = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&said).into_owned(), output.status.success())
}

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        fs::write(folder.path().join(name), text).expect("a file");
    }
    folder
}

/// Applies a module without `init`, and reads its outputs from its state.
fn outputs(binary: &Path, file: &str, text: &str) -> BTreeMap<String, serde_json::Value> {
    let folder = folder(&[(file, text)]);
    let (said, passed) = run(binary, folder.path(), &["apply", "-json", "-auto-approve", "-input=false"]);
    let mut tally = Tally::new();
    said.lines().for_each(|line| tally.push(&stream::parse(line)));
    assert!(passed && tally.finished, "{}: {:#?}", binary.display(), tally.errors.first());
    let state = fs::read(folder.path().join("terraform.tfstate")).expect("a state");
    let state = State::read(&state).expect("a state");
    state.outputs.into_iter().map(|(name, output)| (name, output.value)).collect()
}

const ODD: &[&str] = &[
    "plain",
    "",
    " spaces ",
    "\"",
    "\" }\nresource \"terraform_data\" \"evil\" {}\noutput \"evil\" { value = \"",
    "back\\slash\\",
    "\\\"",
    "two\nlines",
    "crlf\r\nline",
    "tab\t",
    "${1 + 1}",
    "$${x}",
    "$$${x}",
    "%{ if true }x%{ endif }",
    "%%{x}",
    "$",
    "%",
    "{x}",
    "$ {x}",
    "EOT",
    "\nEOT\noutput \"evil\" { value = 1 }\n",
    "  EOT",
    "日本語 é 🦀",
    "\u{1}\u{7f}",
    "# no comment",
    "/* nor this",
    "${key0}",
    "${upper(\"x\")}",
];

#[test]
fn no_value_breaks_out_of_its_string() {
    let values: BTreeMap<String, String> =
        ODD.iter().enumerate().map(|(index, value)| (format!("key{index}"), (*value).to_owned())).collect();
    let mut hcl = String::from("resource \"terraform_data\" \"a\" {}\n");
    let mut json = serde_json::json!({"output": {}});
    for index in 0..ODD.len() {
        let outputs = format!(
            "output \"quoted{index}\" {{ value = \"<${{key{index}}}>{{\" }}\n\
             output \"nested{index}\" {{ value = \"${{format(\"%s\", \"${{key{index}}}\")}}\" }}\n\
             output \"pair{index}\" {{ value = \"${{key15}}${{key{index}}}%${{key{index}}}{{\" }}\n\
             output \"before{index}\" {{ value = \"${{key{index}}}${{lookup({{}}, \"${{key{index}}}\", \"none\")}}\" }}\n\
             output \"directive{index}\" {{ value = \"${{key{index}}}%{{ if true }}yes%{{ endif }}\" }}\n\
             output \"heredoc{index}\" {{\n  value = <<EOT\n${{key{index}}}\nEOT\n}}\n\
             output \"flush{index}\" {{\n  value = <<-EOT\n    a\n      ${{key{index}}}b\n    EOT\n}}\n"
        );
        hcl.push_str(&outputs);
        json["output"][format!("json{index}")]["value"] = format!("<${{key{index}}}>{{").into();
        json["output"][format!("nested{index}")]["value"] =
            format!("${{format(\"%s\", \"${{key{index}}}\")}}").into();
        json["output"][format!("before{index}")]["value"] =
            format!("${{key{index}}}${{upper(\"x\")}}").into();
    }
    let hcl = module::substitute(&hcl, Format::Hcl, &values);
    let json = module::substitute(&json.to_string(), Format::Json, &values);
    for binary in binaries() {
        let (hcl, json) = (outputs(&binary, "main.tf", &hcl), outputs(&binary, "main.tf.json", &json));
        assert!(!hcl.contains_key("evil") && !json.contains_key("evil"));
        for (index, value) in ODD.iter().enumerate() {
            let expected = [
                (&hcl, format!("quoted{index}"), format!("<{value}>{{")),
                (&hcl, format!("nested{index}"), (*value).to_owned()),
                (&hcl, format!("pair{index}"), format!("${value}%{value}{{")),
                (&hcl, format!("before{index}"), format!("{value}none")),
                (&hcl, format!("directive{index}"), format!("{value}yes")),
                (&json, format!("before{index}"), format!("{value}X")),
                (&hcl, format!("heredoc{index}"), format!("{value}\n")),
                (&hcl, format!("flush{index}"), format!("a\n  {value}b\n")),
                (&json, format!("json{index}"), format!("<{value}>{{")),
                (&json, format!("nested{index}"), (*value).to_owned()),
            ];
            for (outputs, name, expected) in expected {
                assert_eq!(outputs[&name], expected, "{name} of {value:?} by {}", binary.display());
            }
        }
    }
}

#[test]
fn what_is_builtin_only_runs_without_init() {
    let hcl = "\u{feff}terraform {\r\n  required_version = \">= 1.0\"\r\n  required_providers {\r\n    terraform = { source = \"terraform.io/builtin/terraform\" }\r\n  }\r\n}\r\n\
        variable \"with-dash\" { default = 1 }\r\nlocals { y = var.with-dash + 1 }\r\nprovider \"terraform\" {}\r\n\
        resource \"terraform_data\" \"a\" {\r\n\tinput = local.y\r\n}\r\n\
        import {\r\n  to = terraform_data.i\r\n  id = \"x\"\r\n}\r\nresource \"terraform_data\" \"i\" {}\r\n\
        removed {\r\n  from = aws_vpc.x\r\n  lifecycle {\r\n    destroy = false\r\n  }\r\n}\r\n\
        output \"o\" { value = terraform_data.a.output }\r\n";
    let json = r#"{"variable": {"x": {"default": 1}}, "resource": {"terraform_data": {"a": {"input": "${var.x + 1}"}}},
        "output": {"o": {"value": "${terraform_data.a.output}"}}}"#;
    for (text, format) in [(hcl, Format::Hcl), (json, Format::Json)] {
        assert!(module::declared(text, format).expect("a module").builtin_only);
        for binary in binaries() {
            assert_eq!(outputs(&binary, format.file_name(), text)["o"], 2, "{}", binary.display());
        }
    }
}

#[test]
fn what_is_not_builtin_only_does_not() {
    for text in [
        "resource \"aws_vpc\" \"a\" {}",
        "resource \"terraform_data\" \"a\" { provider = aws }",
        "provider \"aws\" {}",
        "terraform {\n required_providers {\n  aws = \"~> 5\"\n }\n}",
        "terraform {\n backend \"local\" {}\n}",
        "import {\n to = aws_vpc.x\n id = \"a\"\n}",
        "check \"c\" {\n data \"http\" \"x\" {\n url = \"x\"\n }\n assert {\n condition = data.http.x.body == \"\"\n error_message = \"a\"\n }\n}",
        "module \"m\" {\n source = \"./m\"\n}",
    ] {
        assert!(!module::declared(text, Format::Hcl).expect("a module").builtin_only, "{text}");
        for binary in binaries() {
            let folder = folder(&[("main.tf", text)]);
            let (said, passed) = run(&binary, folder.path(), &["apply", "-json", "-auto-approve"]);
            assert!(!passed && said.contains(" init"), "{text}\n{said}");
        }
    }
}

/// `providers` reads the whole configuration, and needs no installation.
#[test]
fn module_and_configuration_go_together() {
    let configuration = "terraform {\n  required_version = \">= 1.0\"\n  required_providers {\n    aws    = { source = \"ours/aws\", version = \"1.0.0\" }\n    random = { source = \"ours/random\" }\n  }\n}\n\
        provider \"aws\" {\n  region = \"ours\"\n}\nprovider \"aws\" {\n  alias = \"west\"\n}\nprovider \"aws\" {\n  alias = \"east\"\n}\n";
    let hcl = "terraform {\n  required_providers {\n    aws = { source = \"theirs/aws\" }\n  }\n}\nprovider \"aws\" {\n  region = \"theirs\"\n}\nprovider \"aws\" {\n  alias = \"west\"\n}\nresource \"random_id\" \"r\" {}\n";
    let json = r#"{"terraform": {"required_providers": {"aws": {"source": "theirs/aws"}}}, "provider": {"aws": [{}, {"alias": "west"}]}}"#;
    let bare = "resource \"aws_vpc\" \"v\" {}\n";
    for (text, format, aws) in [
        (hcl, Format::Hcl, "theirs/aws"),
        (json, Format::Json, "theirs/aws"),
        (bare, Format::Hcl, "ours/aws"),
    ] {
        let declared = module::declared(text, format).expect("a module");
        let fitted = module::with_configuration(&declared, configuration);
        let overrides = fitted.overrides.expect("random is the configuration's");
        let files = [
            (format.file_name(), text),
            (Configuration::FILE, fitted.text.as_str()),
            (Configuration::OVERRIDE_FILE, overrides.as_str()),
        ];
        for binary in binaries() {
            let folder = folder(&files);
            let (said, passed) = run(&binary, folder.path(), &["providers", "-no-color"]);
            assert!(
                passed && said.contains(aws) && said.contains("ours/random"),
                "{}\n{said}",
                binary.display()
            );
            assert_eq!(said.contains("1.0.0"), aws == "ours/aws", "{said}");
        }
    }
}

#[test]
fn a_backend_gives_way_to_an_override_file() {
    let ours =
        ("backend_override.tf", "terraform {\n  backend \"local\" {\n    path = \"ours.tfstate\"\n  }\n}\n");
    let module = "terraform {\n  backend \"s3\" {\n    bucket = \"theirs\"\n  }\n}\nresource \"terraform_data\" \"a\" {}\n";
    assert!(module::declared(module, Format::Hcl).expect("a module").backend.is_some());
    for binary in binaries() {
        let folder = folder(&[("main.tf", module), ours]);
        for arguments in [&["init", "-input=false"][..], &["apply", "-auto-approve", "-input=false"]] {
            let (said, passed) = run(&binary, folder.path(), arguments);
            assert!(passed, "{said}");
        }
        assert!(folder.path().join("ours.tfstate").is_file());
    }
}
