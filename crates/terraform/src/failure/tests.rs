use std::{collections::BTreeSet, fs, path::Path};

use super::*;
use crate::stream::{self, Tally};

fn diagnostic(summary: &str, detail: &str) -> Diagnostic {
    Diagnostic {
        severity: Severity::Error,
        summary: summary.to_owned(),
        detail: detail.to_owned(),
        address: Some("aws_vpc.v".to_owned()),
        file: Some("main.tf".to_owned()),
        line: Some(7),
        snippet: None,
        variable: None,
    }
}

/// Step, recording, reason, message.
#[rustfmt::skip]
const RECORDED: &[(Step, &str, Reason, &str)] = &[
    (Step::Apply, "syntax", Reason::InvalidModule, "Invalid expression: Expected the start of an expression, but found an invalid expression token. (main.tf:2)"),
    (Step::Apply, "invalid", Reason::InvalidModule, "Reference to undeclared input variable: An input variable with the name \"nope\" has not been declared. This variable can be declared with a variable \"nope\" {} block. (main.tf:2)"),
    (Step::Plan, "missing", Reason::MissingVariable, "variable \"must\" is not set, and the module has no default for it"),
    (Step::Plan, "wrongtype", Reason::InvalidVariable, "variable \"must\": a number is required"),
    (Step::Plan, "validation", Reason::InvalidVariable, "variable \"strict\": Too big"),
    (Step::Apply, "fail", Reason::ApplyFailed, "local-exec provisioner error: Error running command 'echo hello; echo oops >&2; exit 3': exit status 3. Output: hello oops (terraform_data.bad, main.tf:"),
    (Step::Plan, "locked", Reason::StateLocked, "the state is locked by someone@somewhere (apply) since 2026-01-01 00:00:00, lock id 00000000-0000-0000-0000-000000000001"),
    (Step::Apply, "stale", Reason::PlanStale, "Saved plan is stale: The given plan file can no longer be applied"),
    (Step::Plan, "badstate", Reason::StateUnreadable, "Error acquiring the state lock: Error message: "),
    (Step::Plan, "newstate", Reason::StateUnreadable, "Error acquiring the state lock: Error message: "),
    (Step::Plan, "noinit", Reason::NotInitialised, "Inconsistent dependency lock file: "),
    (Step::Init, "noprov", Reason::Network, "Failed to "),
    (Step::Init, "nomod", Reason::ModuleNotFound, "Unreadable module directory: Unable to evaluate directory symlink: lstat nowhere: no such file or directory (and 2 more)"),
    (Step::Destroy, "prevent", Reason::DestroyPrevented, ""),
    (Step::Apply, "interrupted", Reason::Cancelled, "interrupted: local-exec provisioner error: Error running command 'sleep 5': signal: killed. Output: (terraform_data.s, main.tf:"),
];

#[test]
fn recorded_failures_are_told() {
    for (step, case, reason, message) in RECORDED {
        for binary in ["terraform", "tofu"] {
            let path =
                Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/streams/{binary}/{case}.jsonl"));
            let text =
                fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let mut tally = Tally::new();
            text.lines().for_each(|line| tally.push(&stream::parse(line)));
            let failure = classify(*step, &tally.errors, Some(1), "");
            assert_eq!(failure.reason, *reason, "{case} of {binary}: {failure}");
            assert!(failure.message.starts_with(message), "{case} of {binary}: {failure}");
            assert!(!failure.message.contains('\n') && failure.message.len() < 800, "{failure}");
            // Of an inline module the file is one that nobody wrote.
            assert!(failure.variable.is_none() || !failure.message.contains("main.tf"), "{case}: {failure}");
        }
    }
}

/// Messages of providers and backends as people report them; all about an object, which alone would make them ordinary.
#[test]
fn words_of_clouds_are_told() {
    let rows = [
        (
            Reason::Throttled,
            "creating EC2 VPC: operation error EC2: CreateVpc, https response error StatusCode: 503, RequestID: x, api error RequestLimitExceeded: Request limit exceeded.",
        ),
        (Reason::Throttled, "ThrottlingException: Rate exceeded"),
        (
            Reason::Throttled,
            "googleapi: Error 429: Quota exceeded for quota metric 'Queries', rateLimitExceeded",
        ),
        (Reason::Throttled, "unexpected status 429 (429 Too Many Requests)"),
        (
            Reason::Credentials,
            "reading EC2 VPC (vpc-1): operation error EC2: DescribeVpcs, https response error StatusCode: 400, api error RequestExpired: Request has expired.",
        ),
        (
            Reason::Credentials,
            "operation error STS: GetCallerIdentity, https response error StatusCode: 403, RequestID: x, api error ExpiredToken: The security token included in the request is expired",
        ),
        (
            Reason::Credentials,
            "api error InvalidClientTokenId: The security token included in the request is invalid.",
        ),
        (Reason::Credentials, "No valid credential sources found"),
        (
            Reason::Credentials,
            "api error UnauthorizedOperation: You are not authorized to perform this operation.",
        ),
        (Reason::Credentials, "Unable to list provider registration status: AuthorizationFailed"),
        (
            Reason::Network,
            "Get \"https://ec2.eu-west-1.amazonaws.com/\": dial tcp: lookup ec2.eu-west-1.amazonaws.com: no such host",
        ),
        (Reason::Network, "dial tcp 10.0.0.1:443: connect: connection refused"),
        (Reason::Network, "read tcp 10.0.0.1:5->10.0.0.2:443: i/o timeout"),
        (Reason::Network, "net/http: TLS handshake timeout"),
        (
            Reason::Network,
            "Post \"https://x\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
        ),
        (Reason::DiskFull, "writing state: write terraform.tfstate: no space left on device"),
        (
            Reason::StateUnreadable,
            "state snapshot was created by Terraform v1.99.0, which is newer than current v1.11.4; upgrade to Terraform v1.99.0 or greater to work with this state",
        ),
        (Reason::StateLocked, "Lock Info:\n  ID:        1\n  Who:       a@b\n"),
        (
            Reason::ApplyFailed,
            "api error InvalidParameterValue: Value (x) for parameter cidrBlock is invalid.",
        ),
        (Reason::ApplyFailed, "api error VpcLimitExceeded: The maximum number of VPCs has been reached."),
    ];
    for (reason, detail) in rows {
        let failure = classify(Step::Apply, &[diagnostic("creating", detail)], Some(1), "");
        assert_eq!(failure.reason, reason, "{detail}");
        let expected = if reason == Reason::StateUnreadable { Class::Terminal } else { Class::Transient };
        assert_eq!(failure.class, expected, "{detail}");
    }
}

#[test]
fn words_of_terraform_are_told() {
    let plain = |summary: &str, detail: &str| Diagnostic {
        address: None,
        file: None,
        line: None,
        ..diagnostic(summary, detail)
    };
    let rows = [
        (
            Reason::ProviderNotFound,
            plain(
                "Failed to query available provider packages",
                "Could not retrieve the list of available versions for provider x/y: provider registry registry.terraform.io does not have a provider named registry.terraform.io/x/y",
            ),
        ),
        (
            Reason::ProviderNotFound,
            plain(
                "Failed to query available provider packages",
                "provider registry.terraform.io/hashicorp/local was not found in any of the search locations",
            ),
        ),
        (
            Reason::Network,
            plain(
                "Failed to query available provider packages",
                "could not connect to registry.terraform.io: failed to request discovery document",
            ),
        ),
        (
            Reason::ModuleNotFound,
            plain(
                "Module not found",
                "Module \"m\" (from main.tf:1) cannot be found in the module registry at registry.terraform.io.",
            ),
        ),
        (
            Reason::Network,
            plain(
                "Failed to download module",
                "fatal: unable to access 'https://x/': Could not resolve host: x",
            ),
        ),
        (Reason::Credentials, plain("Failed to download module", "git@x: Permission denied (publickey).")),
        (
            Reason::BinaryTooOld,
            plain(
                "Unsupported Terraform Core version",
                "This configuration does not support Terraform version 1.11.4.",
            ),
        ),
        (
            Reason::BinaryBroken,
            plain("Failed to load plugin schemas", "Error while loading schemas for plugin components"),
        ),
        (
            Reason::InvalidModule,
            diagnostic("Unsupported argument", "An argument named \"throttling\" is not expected here."),
        ),
        (Reason::InvalidModule, Diagnostic { address: None, ..diagnostic("Brand new complaint", "") }),
        (
            Reason::InvalidVariable,
            Diagnostic {
                file: Some("x.auto.tfvars.json".into()),
                ..diagnostic("Missing item separator", "")
            },
        ),
        (
            Reason::PlanFailed,
            Diagnostic { address: None, ..diagnostic("Module output value precondition failed", "No.") },
        ),
        (Reason::PlanFailed, diagnostic("Resource postcondition failed", "No.")),
    ];
    for (reason, error) in rows {
        assert_eq!(
            classify(Step::Plan, std::slice::from_ref(&error), Some(1), "").reason,
            reason,
            "{error:?}"
        );
    }
}

#[test]
fn the_error_that_explains_most_is_shown() {
    let ordinary = diagnostic("creating", "api error Something: else");
    let throttled =
        Diagnostic { address: Some("aws_vpc.w".into()), ..diagnostic("creating", "Rate exceeded") };
    let full = diagnostic("writing", "no space left on device");
    let warning = Diagnostic { severity: Severity::Warning, ..diagnostic("careful", "") };
    let failure = classify(Step::Apply, &[warning.clone(), ordinary.clone(), throttled.clone()], Some(1), "");
    assert_eq!(failure.reason, Reason::Throttled);
    assert_eq!(failure.message, "creating: Rate exceeded (aws_vpc.w, main.tf:7) (and 1 more)");
    assert_eq!(
        classify(Step::Apply, &[ordinary.clone(), throttled, full], Some(1), "").reason,
        Reason::DiskFull
    );
    assert_eq!(classify(Step::Destroy, &[ordinary, warning], Some(1), "").reason, Reason::DestroyFailed);
}

/// Output of a plugin that crashed: an error in the stream, and the trace beside it.
#[test]
fn a_provider_that_crashed_is_told_with_its_panic() {
    let trace = "\nStack trace from the terraform-provider-aws_v5.100.0_x5 plugin:\n\npanic: runtime error: invalid memory address or \
                 nil pointer dereference\n[signal SIGSEGV: segmentation violation]\n\ngoroutine 57 [running]:\n\nError: The \
                 terraform-provider-aws_v5.100.0_x5 plugin crashed!\n";
    let crashed = "terraform-provider-aws_v5.100.0_x5 crashed: panic: runtime error: invalid memory address or nil pointer dereference";
    let gone =
        diagnostic("Plugin did not respond", "The plugin encountered an error, and failed to respond.");
    let told = classify(Step::Apply, std::slice::from_ref(&gone), Some(1), trace);
    assert_eq!((told.class, told.reason), (Class::Transient, Reason::ProviderCrashed));
    assert!(told.message.starts_with(crashed) && told.message.contains("aws_vpc.v"), "{told}");
    let told = classify(Step::Apply, &[gone], Some(1), "");
    assert_eq!(told.reason, Reason::ProviderCrashed);
    assert!(told.message.starts_with("Plugin did not respond"), "{told}");
    let told = classify(Step::Plan, &[], Some(11), trace);
    assert_eq!((told.reason, told.message.as_str()), (Reason::ProviderCrashed, crashed));
}

#[test]
fn runs_that_say_nothing() {
    let halted = [Diagnostic { address: None, file: None, ..diagnostic("execution halted", "") }];
    let rows = [
        (Reason::Killed, &[][..], None, "", "killed by a signal"),
        (Reason::Cancelled, &halted, Some(1), "", "interrupted"),
        (
            Reason::BinaryNotFound,
            &[],
            Some(127),
            "sh: terraform: not found",
            "the binary was not found: sh: terraform: not found",
        ),
        (Reason::BinaryBroken, &[], Some(126), "", "the binary cannot be run"),
        (
            Reason::BinaryBroken,
            &[],
            Some(2),
            "x\npanic: runtime error: nil\n\ngoroutine 1 [running]:\n",
            "crashed with exit code 2: panic: runtime error: nil",
        ),
        (
            Reason::DiskFull,
            &[],
            Some(1),
            "Error: write: no space left on device\n",
            "write: no space left on device",
        ),
        (Reason::PlanFailed, &[], Some(1), "│ Error: odd\n╵\n", "odd"),
        (Reason::PlanFailed, &[], Some(3), "", "exit code 3"),
    ];
    for (reason, diagnostics, exit, stderr, message) in rows {
        let failure = classify(Step::Plan, diagnostics, exit, stderr);
        assert_eq!((failure.reason, failure.message.as_str()), (reason, message));
    }
    let killed = classify(Step::Apply, &[diagnostic("creating", "half a story")], None, "");
    assert_eq!(killed.reason, Reason::Killed);
}

#[test]
fn messages_are_short() {
    let long = diagnostic("日本".repeat(500).as_str(), "x");
    let failure = classify(Step::Apply, &[long], Some(1), "");
    assert!(failure.message.chars().count() < 640 && failure.message.contains('…'), "{failure}");
    let twice = diagnostic("creating VPC", "creating VPC: no\n\nlong story");
    assert_eq!(
        classify(Step::Apply, &[twice], Some(1), "").message,
        "creating VPC: no (aws_vpc.v, main.tf:7)"
    );
    let named = diagnostic("creating aws_vpc.v", "no");
    assert_eq!(classify(Step::Apply, &[named], Some(1), "").message, "creating aws_vpc.v: no (main.tf:7)");
}

#[test]
fn reasons_are_words() {
    let words: BTreeSet<_> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
    assert_eq!(words.len(), Reason::ALL.len());
    for reason in Reason::ALL {
        assert!(
            reason.as_str().chars().all(|c| c.is_ascii_alphanumeric())
                && reason.as_str().starts_with(char::is_uppercase)
        );
        assert_eq!(serde_json::to_value(reason).expect("JSON"), reason.as_str());
    }
}

/// Errors of a plan about values in files that CAPT writes name the source of the value.
#[test]
fn inputs_are_named_as_they_were_given() {
    let line = |summary: &str, detail: &str, code: &str, start: usize| {
        let diagnostic = serde_json::json!({
            "severity": "error", "summary": summary, "detail": detail,
            "range": {"filename": "zzz-capt-variables.auto.tfvars.json", "start": {"line": 1, "column": 6, "byte": 5}},
            "snippet": {"code": code, "highlight_start_offset": start, "values": []},
        });
        serde_json::json!({"type": "diagnostic", "diagnostic": diagnostic}).to_string()
    };
    let missing = "The root module input variable \"n\" is not set, and has no default value. Use a -var or -var-file \
                   command line argument to provide a value for this variable.";
    let unsuitable =
        "The given value is not suitable for var.n declared at main.tf:1,1-13: a number is required.";
    let rule = "At most 2 of them.\n\nThis was checked by the validation rule at main.tf:3,3-13.";
    let null = "The given value is not suitable for var.n defined at main.tf:1,1-13: required variable may not be set to null.";
    let object =
        "The given value is not suitable for var.n declared at main.tf:1,1-13: attribute \"c\" is required.";
    let rows = [
        (
            line("No value for required variable", missing, "", 0),
            Reason::MissingVariable,
            "spec.variables.n is not set, and the module has no default for it",
        ),
        (
            line("Invalid value for input variable", unsuitable, "{\"n\":\"many\"}", 5),
            Reason::InvalidVariable,
            "spec.variables.n: a number is required",
        ),
        (
            line("Invalid value for input variable", object, "{\"n\":{}}", 5),
            Reason::InvalidVariable,
            "spec.variables.n: attribute \"c\" is required",
        ),
        (
            line("Invalid value for variable", rule, "{\"m\":1,\"n\":5}", 11),
            Reason::InvalidVariable,
            "spec.variables.n: At most 2 of them",
        ),
        (
            line("Required variable not set", null, "{\"n\":null}", 5),
            Reason::InvalidVariable,
            "spec.variables.n: required variable may not be set to null",
        ),
    ];
    for (line, reason, expected) in rows {
        let mut tally = Tally::new();
        tally.push(&stream::parse(&line));
        let failure = classify(Step::Plan, &tally.errors, Some(1), "")
            .given_as(|name| format!("spec.variables.{name}"));
        assert_eq!(
            (failure.reason, failure.message.as_str(), failure.variable.as_deref()),
            (reason, expected, Some("n"))
        );
    }
    let file = Diagnostic {
        address: None,
        file: Some("zzz-capt-0002.auto.tfvars".into()),
        line: Some(3),
        ..diagnostic("Missing newline after argument", "An argument definition must end with a newline.")
    };
    let failure = classify(Step::Plan, &[file], Some(1), "");
    assert_eq!(failure.reason, Reason::InvalidVariable);
    assert!(failure.message.ends_with("must end with a newline. (varFiles[2]:3)"), "{failure}");
}

/// Human-readable output of `get`, which has no stream.
#[test]
fn modules_that_cannot_be_fetched_are_told_in_one_clean_sentence() {
    let printed = |summary: &str, detail: &str| {
        format!(
            "Downloading git::https://x for m...\n\nWarning: Old\n\nIt is old.\n\nError: {summary}\n\n  on fetch.tf.json line 1, in module.fetched:\n   1: {{\"module\":1}}\n\n{detail}\n\nDownloading git::https://x for n...\n"
        )
    };
    let rows = [
        (
            printed(
                "Failed to download module",
                "Could not download module \"fetched\" (fetch.tf.json:1) source code from\n\"git::file:///nowhere/repo.git\": error downloading\n'file:///nowhere/repo.git': /usr/bin/git exited with 128: Cloning into\n'/data/shapes/x/fetch/data/modules/fetched'...\nfatal: '/nowhere/repo.git' does not appear to be a git repository\nfatal: Could not read from remote repository.\n\nPlease make sure you have the correct access rights\nand the repository exists.",
            ),
            Reason::ModuleNotFound,
            "module git::file:///nowhere/repo.git cannot be fetched: git: '/nowhere/repo.git' does not appear to be a git repository",
        ),
        (
            printed(
                "Failed to download module",
                "Could not download module \"fetched\" (fetch.tf.json:1) source code from\n\"git::file:///r?ref=nope\": error downloading 'file:///r?ref=nope':\n/usr/bin/git exited with 1: error: pathspec 'nope' did not match any file(s)\nknown to git",
            ),
            Reason::ModuleNotFound,
            "module git::file:///r?ref=nope cannot be fetched: git: pathspec 'nope' did not match any file(s) known to git",
        ),
        (
            printed(
                "Failed to download module",
                "Could not download module \"fetched\" (fetch.tf.json:1) source code from\n\"https://127.0.0.1:9/x.zip\": Get \"https://127.0.0.1:9/x.zip\": dial tcp\n127.0.0.1:9: connect: connection refused",
            ),
            Reason::Network,
            "module https://127.0.0.1:9/x.zip cannot be fetched: Get \"https://127.0.0.1:9/x.zip\": dial tcp 127.0.0.1:9: connect: connection refused",
        ),
        (
            printed(
                "Error accessing remote module registry",
                "Failed to retrieve available versions for module \"fetched\" (fetch.tf.json:1)\nfrom registry.terraform.io: failed to request discovery document",
            ),
            Reason::Network,
            "Failed to retrieve available versions for the module from registry.terraform.io: failed to request discovery document",
        ),
        (
            "╷\n│ Error: Failed to download module\n│ \n│   on main.tf line 3, in module \"vpc\":\n│    3: module \"vpc\" {\n│ \n│ Could not download module \"vpc\" (main.tf:3) source code from \"git::https://x\":\n│ error downloading 'https://x': /usr/bin/git exited with 128: fatal: Repository\n│ not found\n╵\n".to_owned(),
            Reason::ModuleNotFound,
            "module \"vpc\" (main.tf:3) cannot be fetched from git::https://x: git: Repository not found",
        ),
        (
            "\nError: Failed to expand subdir globs\n\nsubdir \"sub/dir\" not found\n".to_owned(),
            Reason::ModuleNotFound,
            "Failed to expand subdir globs: subdir \"sub/dir\" not found",
        ),
    ];
    for (text, reason, expected) in rows {
        let failure = classify(Step::Init, &[], Some(1), &text);
        assert_eq!((failure.reason, failure.message.as_str()), (reason, expected), "{text}");
    }
}

#[test]
fn undeclared_variables_are_named() {
    let warning = |name: &str| Diagnostic {
        severity: Severity::Warning,
        ..diagnostic(
            "Value for undeclared variable",
            &format!(
                "The root module does not declare a variable named \"{name}\" but a value was found in file \"x\"."
            ),
        )
    };
    let other =
        Diagnostic { severity: Severity::Warning, ..diagnostic("Argument is deprecated", "named \"x\"") };
    assert_eq!(inputs::undeclared(&[warning("b"), other, warning("a"), warning("b")]), ["a", "b"]);
}

/// A message may have any text of a manifest in it: a source, a path, an entrypoint.
#[test]
fn no_message_steers_a_terminal_or_is_endless() {
    let source = "git::/x/\u{1b}]0;PWNED\u{7}\u{1b}[31mRED\u{202e}dlrow\0\nb";
    let failure = Failure::new(Reason::ModuleNotFound, format!("module {source}: no"));
    assert_eq!(failure.message, "module git::/x/RED\u{fffd}dlrow\u{fffd} b: no");
    let failure = failure.saying(&format!("{source} again"));
    assert_eq!(failure.message, "git::/x/RED\u{fffd}dlrow\u{fffd} b again");
    let long = Failure::new(Reason::PathNotAllowed, "x".repeat(5000));
    assert_eq!(long.message.chars().count(), 1024);
    assert!(long.message.ends_with('…'));
}
