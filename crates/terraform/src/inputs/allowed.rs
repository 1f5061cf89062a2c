//! Arguments and environment variables that inputs may have: the one list of both.
//!
//! **Arguments** are an allow-list per command. What a run means is CAPT's: the state it works on, the plan it makes, its
//! output, which CAPT reads. A new version of a binary brings new arguments, and none of them is let through unseen. Each is
//! one word (`-parallelism=5`, with one dash or two): in `-name value` the second word would be a file or an address to a
//! switch, and nobody can tell without knowing every switch of every version.
//!
//! **Environment variables** cannot be an allow-list, since every provider has its own. Refused is what changes the meaning of
//! a command line, what belongs to CAPT, and what makes Terraform, git or the loader run or trust something else: modules
//! and plugins are fetched once for all workspaces alike, so that step must not depend on who asks for it first. The
//! names that begin with `TF_` or `GIT_` are an allow-list again.
//!
//! The CRDs of CAPT have the same rules in CEL; a test of the command line compares the two.

use super::Inputs;
use crate::failure::{Failure, Reason};

/// A command that takes further arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// `init`.
    Init,
    /// `plan`.
    Plan,
    /// `apply`.
    Apply,
    /// `destroy`.
    Destroy,
}

impl Command {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Init, Self::Plan, Self::Apply, Self::Destroy];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Plan => "plan",
            Self::Apply => "apply",
            Self::Destroy => "destroy",
        }
    }

    /// The arguments it may have.
    pub const fn allowed(self) -> &'static [Argument] {
        match self {
            Self::Init => &INIT,
            Self::Plan | Self::Apply | Self::Destroy => &RUN,
        }
    }
}

/// An argument that is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its name, without dashes.
    pub name: &'static str,
    /// Value that follows the name.
    pub value: ArgumentValue,
}

/// Value that follows the name of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentValue {
    /// Nothing, `=true` or `=false`.
    Switch,
    /// `=true` or `=false`.
    Bool,
    /// `=N`, from 1.
    Number,
    /// `=60s`.
    Duration,
    /// `=KEY=VALUE`; without a second `=` it would name a file of the host.
    Setting,
}

const INIT: [Argument; 5] = [
    Argument { name: "upgrade", value: ArgumentValue::Switch },
    Argument { name: "reconfigure", value: ArgumentValue::Switch },
    Argument { name: "no-color", value: ArgumentValue::Switch },
    Argument { name: "lock-timeout", value: ArgumentValue::Duration },
    Argument { name: "backend-config", value: ArgumentValue::Setting },
];

const RUN: [Argument; 5] = [
    Argument { name: "parallelism", value: ArgumentValue::Number },
    Argument { name: "refresh", value: ArgumentValue::Bool },
    Argument { name: "lock-timeout", value: ArgumentValue::Duration },
    Argument { name: "compact-warnings", value: ArgumentValue::Switch },
    Argument { name: "no-color", value: ArgumentValue::Switch },
];

/// Suggestions for arguments that users know from the command line; a name that ends in `*` matches as a prefix.
const INSTEAD: &[(&str, &str)] = &[
    ("var", "write vars or varmap in the template, or variables in the instance"),
    ("var-file", "name a ConfigMap or Secret in varFiles"),
    ("target*", "a run covers the whole module: split it into templates"),
    ("exclude*", "a run covers the whole module: split it into templates"),
    (
        "replace",
        "it would replace the object at every run: use triggers_replace or replace_triggered_by in the module",
    ),
    ("state*", "CAPT keeps the state; a WorkspaceProviderConfig names a backend"),
    ("backup", "CAPT keeps the state; a WorkspaceProviderConfig names a backend"),
    ("backend", "CAPT keeps the state; a WorkspaceProviderConfig names a backend"),
    ("backend-config", "write -backend-config=KEY=VALUE; a file of the host is not read"),
    ("lock", "runs lock the state; write -lock-timeout=60s to wait longer for a lock"),
    ("chdir", "name the folder in entrypoint"),
    ("destroy", "delete the instance"),
    ("refresh-only", "use driftDetection in the instance"),
    ("auto-approve", "use approval in the instance"),
    ("input", "nobody is there to answer; give every variable a value"),
    ("out", "CAPT keeps the plan"),
    ("json*", "CAPT reads the output of every run"),
    ("detailed-exitcode", "CAPT reads the output of every run"),
    ("plugin-dir", "use plugins.mirror in a WorkspaceProviderConfig"),
    ("from-module", "name the module in module"),
    ("help", "nothing would be run"),
    ("h", "nothing would be run"),
    ("version", "nothing would be run"),
];

/// Environment variables that are refused, and why; a name that ends in `*` stands for all that begin so.
pub const REFUSED_ENV: &[(&str, &str)] = &[
    ("TF_*", "it changes what a run of Terraform means, or belongs to CAPT"),
    ("TOFU_*", "it changes what a run of OpenTofu means"),
    ("TERRAFORM_CONFIG", "the CLI configuration is CAPT's"),
    ("CAPT_*", "it belongs to CAPT"),
    ("CHECKPOINT_*", "it belongs to CAPT"),
    ("PATH", "where programs are found is the operator's to say"),
    ("HOME", "each run has a home of its own"),
    ("TMPDIR", "each run has a temporary folder of its own"),
    ("TMP", "each run has a temporary folder of its own"),
    ("TEMP", "each run has a temporary folder of its own"),
    ("XDG_*", "configuration is read from the run's own home"),
    ("PWD", "CAPT says where a run starts"),
    ("LD_*", "it makes programs load other code"),
    ("DYLD_*", "it makes programs load other code"),
    ("GLIBC_TUNABLES", "it changes how programs are loaded"),
    ("GCONV_PATH", "it makes programs load other code"),
    ("GODEBUG", "it changes how Terraform checks certificates and runs programs"),
    ("GOCOVERDIR", "it names a folder of the host"),
    ("SSL_CERT_*", "plugins and modules are fetched for all, from servers that the operator trusts"),
    ("OPENSSL_*", "it makes programs load other code"),
    ("GSS_*", "it makes programs load other code"),
    ("KRB5_*", "it makes programs load other code"),
    ("RES_OPTIONS", "it changes which servers names lead to"),
    ("LOCALDOMAIN", "it changes which servers names lead to"),
    ("HOSTALIASES", "it changes which servers names lead to"),
    ("GIT_*", "it makes git run or trust something else"),
    ("SSH_*", "it makes ssh run something else, or names a socket of the host"),
    ("HG*", "it makes Mercurial run something else"),
    ("SHELL", "it names the program that commands are given to"),
    ("SHELLOPTS", "it changes what a shell does"),
    ("BASHOPTS", "it changes what a shell does"),
    ("BASH_*", "it makes a shell run something else"),
    ("ENV", "it makes a shell run something else"),
    ("IFS", "it changes what a shell does"),
    ("PS4", "it makes a shell run something else"),
    ("PERL5*", "it makes git run something else"),
    ("PYTHON*", "it makes Mercurial run something else"),
];

/// Of those, the ones that are let through: values of variables, credentials of registries and backends, and what a run says.
pub const ALLOWED_ENV: &[&str] = &[
    "TF_VAR_*",
    "TF_TOKEN_*",
    "TF_HTTP_*",
    "TF_CLOUD_*",
    "TF_REGISTRY_*",
    "TF_LOG",
    "TF_LOG_CORE",
    "TF_LOG_PROVIDER*",
    "TF_APPEND_USER_AGENT",
    "GIT_TERMINAL_PROMPT",
];

impl Inputs {
    /// Refuses arguments and environment variables that would change what a run means.
    pub fn check_words(&self) -> Result<(), Failure> {
        self.check_arguments()?;
        for (name, value) in &self.env {
            environment(name).and_then(|()| environment_value(&value.value)).map_err(|why| {
                let message = format!("environment variable {name} is not allowed: {why}");
                Failure::new(Reason::EnvironmentNotAllowed, message)
            })?;
        }
        Ok(())
    }

    /// Refuses arguments alone.
    pub(crate) fn check_arguments(&self) -> Result<(), Failure> {
        let args = &self.args;
        let all = Command::ALL.into_iter().zip([&args.init, &args.plan, &args.apply, &args.destroy]);
        for (command, args) in all {
            for text in args {
                argument(command, text).map_err(|why| {
                    let message =
                        format!("{}Args: {:?} is not allowed: {why}", command.as_str(), name_of(text));
                    Failure::new(Reason::ArgumentNotAllowed, message)
                })?;
            }
        }
        Ok(())
    }
}

/// Checks that a command may have an argument; the error says what to do instead.
pub fn argument(command: Command, text: &str) -> Result<(), String> {
    let allowed = command.allowed();
    let known = split(text).filter(|(name, value)| {
        allowed.iter().any(|argument| argument.name == *name && argument.value.fits(*value))
    });
    if known.is_some() {
        return Ok(());
    }
    let name = split(text).map_or("", |(name, _)| name);
    if let Some((_, instead)) = INSTEAD.iter().find(|(pattern, _)| matches(pattern, name)) {
        return Err((*instead).to_owned());
    }
    let list: Vec<String> = allowed.iter().map(Argument::shown).collect();
    Err(format!("{} takes {}, each as one item", command.as_str(), list.join(", ")))
}

/// Checks that a run may have an environment variable of that name; the error says why not.
pub fn environment(name: &str) -> Result<(), &'static str> {
    let start = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let well_formed = name.bytes().next().is_some_and(start)
        && name.bytes().all(|byte| start(byte) || byte.is_ascii_digit());
    if !well_formed {
        return Err("a name has letters, digits and _, and begins with no digit");
    }
    if ALLOWED_ENV.iter().any(|pattern| matches(pattern, name)) {
        return Ok(());
    }
    match REFUSED_ENV.iter().find(|(pattern, _)| matches(pattern, name)) {
        Some((_, why)) => Err(why),
        None => Ok(()),
    }
}

/// Checks that a run may have an environment variable of that value; the error is the reason.
pub fn environment_value(value: &str) -> Result<(), &'static str> {
    // It would end there, and no process can be started with it.
    if value.contains('\0') { Err("its value has a NUL character") } else { Ok(()) }
}

impl Argument {
    fn shown(&self) -> String {
        let value = match self.value {
            ArgumentValue::Switch => "",
            ArgumentValue::Bool => "=true|false",
            ArgumentValue::Number => "=N",
            ArgumentValue::Duration => "=60s",
            ArgumentValue::Setting => "=KEY=VALUE",
        };
        format!("-{}{value}", self.name)
    }
}

impl ArgumentValue {
    fn fits(self, value: Option<&str>) -> bool {
        let is_bool = |value: &str| value == "true" || value == "false";
        match (self, value) {
            (Self::Switch, None) => true,
            (Self::Switch | Self::Bool, Some(value)) => is_bool(value),
            (Self::Number, Some(value)) => value.len() <= 4 && !value.starts_with('0') && is_digits(value),
            (Self::Duration, Some(value)) => {
                let digits = value.trim_end_matches(|letter: char| letter.is_ascii_lowercase());
                // Some days at most: what Terraform cannot take fails again and again.
                let most = match &value[digits.len()..] {
                    "ms" => 8,
                    "s" => 5,
                    "m" => 4,
                    "h" => 2,
                    _ => 0,
                };
                is_digits(digits) && digits.len() <= most
            }
            (Self::Setting, Some(value)) => value.split_once('=').is_some_and(|(key, value)| {
                let word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
                key.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
                    && key.bytes().all(word)
                    && !value.bytes().any(|byte| byte.is_ascii_control())
            }),
            (Self::Bool | Self::Number | Self::Duration | Self::Setting, None) => false,
        }
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Name and value of `-name`, `--name`, `-name=value`; none of a word without a dash.
fn split(text: &str) -> Option<(&str, Option<&str>)> {
    let rest = text.strip_prefix("--").or_else(|| text.strip_prefix('-'))?;
    Some(rest.split_once('=').map_or((rest, None), |(name, value)| (name, Some(value))))
}

/// An argument without its value, which may be a secret.
fn name_of(text: &str) -> &str {
    text.split_once('=').map_or(text, |(name, _)| name)
}

fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_a_run() {
        let good = [
            (Command::Init, "-upgrade"),
            (Command::Init, "--upgrade=false"),
            (Command::Init, "-backend-config=bucket=b"),
            (Command::Init, "-backend-config=key=a=b/c"),
            (Command::Plan, "-parallelism=20"),
            (Command::Plan, "--refresh=false"),
            (Command::Apply, "-lock-timeout=90s"),
            (Command::Destroy, "-compact-warnings"),
        ];
        for (command, text) in good {
            assert_eq!(argument(command, text), Ok(()), "{command:?} {text}");
        }
        let bad = [
            (Command::Plan, "-help", "nothing would be run"),
            (Command::Plan, "--help", "nothing would be run"),
            (Command::Apply, "-h", "nothing would be run"),
            (Command::Apply, "-version", "nothing would be run"),
            (Command::Plan, "-state=/x", "CAPT keeps the state"),
            (Command::Plan, "-state-out=/x", "CAPT keeps the state"),
            (Command::Apply, "-backup=/x", "CAPT keeps the state"),
            (Command::Plan, "-chdir=/", "entrypoint"),
            (Command::Plan, "-lock=false", "-lock-timeout"),
            (Command::Plan, "-target=a.b", "split it into templates"),
            (Command::Plan, "-target", "split it into templates"),
            (Command::Plan, "a.b", "each as one item"),
            (Command::Plan, "-out=x", "CAPT keeps the plan"),
            (Command::Apply, "-destroy", "delete the instance"),
            (Command::Plan, "-refresh-only", "driftDetection"),
            (Command::Plan, "-json=false", "CAPT reads the output"),
            (Command::Plan, "-input=true", "nobody is there"),
            (Command::Apply, "-auto-approve", "approval"),
            (Command::Plan, "-var=a=b", "varmap"),
            (Command::Plan, "-var-file=/etc/passwd", "varFiles"),
            (Command::Init, "-backend-config=/etc/passwd", "KEY=VALUE"),
            (Command::Init, "-backend-config", "KEY=VALUE"),
            (Command::Init, "-backend=false", "backend"),
            (Command::Init, "-plugin-dir=/", "plugins.mirror"),
            (Command::Init, "-from-module=x", "module"),
            (Command::Plan, "-parallelism", "-parallelism=N"),
            (Command::Plan, "-parallelism=0", "-parallelism=N"),
            (Command::Plan, "-upgrade", "each as one item"),
            (Command::Plan, "---refresh=false", "each as one item"),
            (Command::Plan, "--", "each as one item"),
            (Command::Plan, "-", "each as one item"),
            (Command::Init, "-backend-config=a=b\0c", "KEY=VALUE"),
            (Command::Init, "-backend-config=a=b\u{1b}c", "KEY=VALUE"),
            (Command::Plan, "-lock-timeout=999999999999h", "-lock-timeout=60s"),
            (Command::Plan, "-lock-timeout=100000s", "-lock-timeout=60s"),
            (Command::Plan, "", "each as one item"),
            (Command::Plan, " -refresh=false", "each as one item"),
            (Command::Plan, "-generate-config-out=x", "each as one item"),
        ];
        for (command, text, instead) in bad {
            let why = argument(command, text).expect_err(text);
            assert!(why.contains(instead), "{command:?} {text}: {why}");
        }
    }

    #[test]
    fn the_value_of_an_argument_is_not_shown() {
        let mut inputs = Inputs::inline("");
        inputs.args.plan.push("-var=password=hunter2".into());
        let failure = inputs.check_words().expect_err("refused");
        assert_eq!(failure.reason, Reason::ArgumentNotAllowed);
        assert!(failure.message.starts_with("planArgs: \"-var\" is not allowed"), "{}", failure.message);
        assert!(!failure.message.contains("hunter2"), "{}", failure.message);
    }

    #[test]
    fn no_value_of_the_environment_has_a_nul() {
        let mut inputs = Inputs::inline("");
        let value = |value: &str| crate::inputs::EnvValue { value: value.into(), sensitive: true };
        inputs.env.insert("AWS_X".into(), value("-----BEGIN\n\tx"));
        assert_eq!(inputs.check_words(), Ok(()));
        inputs.env.insert("AWS_X".into(), value("hunter\0two"));
        let failure = inputs.check_words().expect_err("refused");
        assert_eq!(failure.reason, Reason::EnvironmentNotAllowed);
        assert!(failure.message.contains("AWS_X") && !failure.message.contains("hunter"), "{failure:?}");
    }

    #[test]
    fn environment_of_a_run() {
        for name in ["AWS_REGION", "TF_VAR_x", "TF_TOKEN_example_com", "TF_LOG", "HTTPS_PROXY", "KUBECONFIG"]
        {
            assert_eq!(environment(name), Ok(()), "{name}");
        }
        let bad = [
            "TF_CLI_ARGS",
            "TF_CLI_ARGS_plan",
            "TF_DATA_DIR",
            "TF_WORKSPACE",
            "TF_CLI_CONFIG_FILE",
            "TERRAFORM_CONFIG",
            "TF_PLUGIN_CACHE_DIR",
            "TF_LOG_PATH",
            "TF_REATTACH_PROVIDERS",
            "TF_ENCRYPTION",
            "LD_PRELOAD",
            "PATH",
            "HOME",
            "TMPDIR",
            "BASH_ENV",
            "ENV",
            "GIT_SSH_COMMAND",
            "GIT_CONFIG_COUNT",
            "CAPT_DATA_DIR",
            "GODEBUG",
            "SSL_CERT_FILE",
            "BASH_FUNC_x%%",
            "",
            "A=B",
            "1A",
        ];
        for name in bad {
            assert!(environment(name).is_err(), "{name}");
        }
    }
}
