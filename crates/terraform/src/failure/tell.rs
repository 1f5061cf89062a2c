//! Tells reasons by words.

use super::Reason;
use crate::stream::Diagnostic;

/// Returns true for what an interrupted run reports for each thing it left undone.
pub(super) fn halted(diagnostic: &Diagnostic) -> bool {
    matches!(diagnostic.summary.as_str(), "execution halted" | "operation canceled" | "Operation cancelled")
}

/// `None` where no word tells.
pub(super) fn reason(error: &Diagnostic) -> Option<Reason> {
    let known =
        SUMMARIES.iter().find(|(start, _)| error.summary.starts_with(start)).map(|(_, reason)| *reason);
    match known {
        // Their details quote what a person wrote, which may be any word.
        Some(reason @ (Reason::MissingVariable | Reason::InvalidVariable | Reason::InvalidModule)) => {
            Some(reason)
        }
        other => {
            by_words(&format!("{}\n{}", error.summary, error.detail)).or(other).or_else(|| by_place(error))
        }
    }
}

/// Summaries of Terraform and OpenTofu themselves: the start of each.
const SUMMARIES: &[(&str, Reason)] = &[
    ("No value for required variable", Reason::MissingVariable),
    ("Invalid value for input variable", Reason::InvalidVariable),
    ("Invalid value for variable", Reason::InvalidVariable),
    ("Required variable not set", Reason::InvalidVariable),
    ("Value for undeclared variable", Reason::InvalidVariable),
    ("Variable not declared", Reason::InvalidVariable),
    ("Module not installed", Reason::NotInitialised),
    ("Module source has changed", Reason::NotInitialised),
    ("Module version requirements have changed", Reason::NotInitialised),
    ("Inconsistent dependency lock file", Reason::NotInitialised),
    ("Required plugins are not installed", Reason::NotInitialised),
    ("Missing required provider", Reason::NotInitialised),
    ("Backend initialization required", Reason::NotInitialised),
    ("Backend configuration changed", Reason::NotInitialised),
    ("Unreadable module", Reason::ModuleNotFound),
    ("Failed to download module", Reason::ModuleNotFound),
    ("Could not download module", Reason::ModuleNotFound),
    ("Failed to read module", Reason::ModuleNotFound),
    ("Module not found", Reason::ModuleNotFound),
    ("Failed to expand subdir globs", Reason::ModuleNotFound),
    ("Invalid module source address", Reason::ModuleNotFound),
    ("Invalid registry module source address", Reason::ModuleNotFound),
    ("Invalid version constraint", Reason::InvalidModule),
    ("Error accessing remote module registry", Reason::ModuleNotFound),
    ("Unresolvable module version constraint", Reason::ModuleNotFound),
    ("Failed to query available provider packages", Reason::ProviderNotFound),
    ("Failed to resolve provider packages", Reason::ProviderNotFound),
    ("Failed to install provider", Reason::ProviderNotFound),
    ("Incompatible provider version", Reason::ProviderNotFound),
    ("Invalid provider registry host", Reason::ProviderNotFound),
    ("Unsupported Terraform Core version", Reason::BinaryTooOld),
    ("Unsupported OpenTofu Core version", Reason::BinaryTooOld),
    ("Failed to load plugin schemas", Reason::BinaryBroken),
    ("Failed to instantiate provider", Reason::BinaryBroken),
    ("Plugin did not respond", Reason::ProviderCrashed),
    ("Saved plan is stale", Reason::PlanStale),
    ("Saved plan does not match the given state", Reason::PlanStale),
    ("Instance cannot be destroyed", Reason::DestroyPrevented),
    ("Resource instance cannot be destroyed", Reason::DestroyPrevented),
    ("Error acquiring the state lock", Reason::StateLocked),
    ("Error locking state", Reason::StateLocked),
    ("No configuration files", Reason::InvalidModule),
    // These name an object too, so the rule for errors in files would miss them.
    ("Unsupported argument", Reason::InvalidModule),
    ("Unsupported block type", Reason::InvalidModule),
    ("Unsupported attribute", Reason::InvalidModule),
    ("Missing required argument", Reason::InvalidModule),
    ("Reference to undeclared", Reason::InvalidModule),
    ("Invalid reference", Reason::InvalidModule),
    ("Invalid resource type", Reason::InvalidModule),
    ("Invalid data source", Reason::InvalidModule),
    ("Call to unknown function", Reason::InvalidModule),
    ("Incorrect attribute value type", Reason::InvalidModule),
    ("Conflicting configuration arguments", Reason::InvalidModule),
    ("Invalid combination of arguments", Reason::InvalidModule),
];

fn by_place(error: &Diagnostic) -> Option<Reason> {
    let file = error.file.as_deref()?;
    if file.ends_with(".tfvars") || file.ends_with(".tfvars.json") {
        return Some(Reason::InvalidVariable);
    }
    // An error in a file that is about no object is one of reading the module. Conditions are about values.
    let condition =
        error.summary.contains("precondition failed") || error.summary.contains("postcondition failed");
    (error.address.is_none() && !condition).then_some(Reason::InvalidModule)
}

/// In lower case, the first that is found decides. The order matters: a lock that could not be read is no lock that is held,
/// and a lookup that failed for want of a network is no missing module.
const WORDS: &[(Reason, &[&str])] = &[
    (Reason::DiskFull, &["no space left on device", "disk quota exceeded", "enospc"]),
    (
        Reason::StateUnreadable,
        &[
            "unsupported state file format",
            "state file could not be parsed",
            "state snapshot was created by",
            "failed to decrypt",
            "decryption failed",
            "encrypted state",
        ],
    ),
    (
        Reason::StateLocked,
        &["lock info:", "state is already locked", "state locked", "workspace is already locked"],
    ),
    (
        Reason::Throttled,
        &[
            "throttling",
            "throttled",
            "requestlimitexceeded",
            "rate exceeded",
            "ratelimitexceeded",
            "rate limit",
            "too many requests",
            "toomanyrequests",
            "provisionedthroughputexceeded",
            "slowdown",
            "slow down",
            "status code: 429",
            "statuscode: 429",
            "error 429",
        ],
    ),
    (
        Reason::Credentials,
        &[
            "expiredtoken",
            "token has expired",
            "token is expired",
            "included in the request is expired",
            "included in the request is invalid",
            "invalidclienttokenid",
            "signaturedoesnotmatch",
            "invalidaccesskeyid",
            "requestexpired",
            "no valid credential sources",
            "unable to locate credentials",
            "failed to refresh cached credentials",
            "could not find default credentials",
            "error validating provider credentials",
            "authfailure",
            "accessdenied",
            "access denied",
            "unauthorizedoperation",
            "not authorized to perform",
            "authorizationfailed",
            "invalid_grant",
            "invalid_client",
            "401 unauthorized",
            "status code: 401",
            "statuscode: 401",
            "status code: 403",
            "statuscode: 403",
            "asked for the client to provide credentials",
            "authentication failed",
            "permission denied (publickey)",
            "could not read username",
        ],
    ),
    (
        Reason::Network,
        &[
            "no such host",
            "server misbehaving",
            "could not resolve host",
            "failed to connect to",
            "couldn't connect to server",
            "temporary failure in name resolution",
            "connection refused",
            "connection reset",
            "connection timed out",
            "broken pipe",
            "i/o timeout",
            "tls handshake timeout",
            "network is unreachable",
            "no route to host",
            "context deadline exceeded",
            "client.timeout exceeded",
            "unexpected eof",
            "http2: client connection lost",
            "request send failed",
            "send request failed",
            "bad gateway",
            "service unavailable",
            "serviceunavailable",
            "gateway timeout",
            "failed to request discovery document",
        ],
    ),
];

pub(super) fn by_words(text: &str) -> Option<Reason> {
    let text = text.to_lowercase();
    WORDS.iter().find(|(_, words)| words.iter().any(|word| text.contains(word))).map(|(reason, _)| *reason)
}

/// Returns true for traces that Go programs leave behind.
pub(super) fn crashed(stderr: &str) -> bool {
    ["panic:", "fatal error:", "goroutine ", "TERRAFORM CRASH", "OPENTOFU CRASH"]
        .iter()
        .any(|sign| stderr.contains(sign))
}
