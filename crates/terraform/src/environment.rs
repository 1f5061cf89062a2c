//! The environment of every process: an allow-list, what the inputs name, and our own.

use std::{
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
};

use crate::{folders::Folders, hash::sha256, inputs::Inputs, private_files::write_private, sandbox::Rules};

/// The variable that names a CLI configuration.
pub(crate) const CLI_VARIABLE: &str = "TF_CLI_CONFIG_FILE";

/// Taken over from the engine's own environment: how to reach the network, and how to speak.
const TAKEN_OVER: [&str; 13] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "LANG",
    "LC_ALL",
    "TZ",
    "USER",
    "LOGNAME",
];

/// Makes environments.
pub(crate) struct Environment {
    folders: Folders,
    path: OsString,
    sandbox: bool,
}

impl Environment {
    pub fn new(folders: Folders, path: OsString, sandbox: bool) -> Self {
        Self { folders, path, sandbox }
    }

    /// The environment of a process, with `scratch` as its home and for its temporary files. `light`: it starts no plugins, so its memory stays small without a garbage collector, which
    /// saves a tenth of the time of a small run.
    pub fn of(
        &self,
        inputs: &Inputs,
        data: &Path,
        scratch: &Path,
        light: bool,
    ) -> io::Result<Vec<(OsString, OsString)>> {
        let mut all: Vec<(OsString, OsString)> = Vec::with_capacity(32);
        for name in TAKEN_OVER {
            if let Some(value) = std::env::var_os(name) {
                all.push((name.into(), value));
            }
        }
        all.push(("PATH".into(), self.path.clone()));
        if light {
            all.push(("GOGC".into(), "off".into()));
            all.push(("GOMEMLIMIT".into(), "192MiB".into()));
        }
        all.push(("HOME".into(), scratch.into()));
        all.push(("TMPDIR".into(), scratch.into()));
        all.extend(inputs.env.iter().map(|(name, value)| (name.into(), OsString::from(&value.value))));
        // Ours come last: an input cannot undo them.
        let cli = self.cli(inputs)?;
        let own: [(&str, &OsStr); 5] = [
            ("TF_IN_AUTOMATION", "1".as_ref()),
            ("TF_INPUT", "0".as_ref()),
            ("CHECKPOINT_DISABLE", "1".as_ref()),
            ("TF_DATA_DIR", data.as_os_str()),
            (CLI_VARIABLE, cli.as_os_str()),
        ];
        all.extend(own.map(|(name, value)| (name.into(), value.into())));
        Ok(all)
    }

    /// The environment of a process that works on the state. `init` gets no Terraform workspace: it would have to be there.
    pub fn of_run(
        &self,
        inputs: &Inputs,
        data: &Path,
        scratch: &Path,
        light: bool,
    ) -> io::Result<Vec<(OsString, OsString)>> {
        let mut all = self.of(inputs, data, scratch, light)?;
        all.extend(inputs.workspace.iter().map(|name| ("TF_WORKSPACE".into(), name.into())));
        Ok(all)
    }

    /// The text of a CLI configuration for plugins from a mirror, or else with a cache.
    pub fn cli_text(mirror: Option<&Path>, cache: &Path) -> io::Result<String> {
        let quoted = |path: &Path| {
            serde_json::to_string(&path.to_string_lossy()).map(|text| text.replace("${", "$${"))
        };
        Ok(if let Some(mirror) = mirror {
            format!(
                "provider_installation {{\n  filesystem_mirror {{\n    path = {}\n  }}\n}}\n",
                quoted(mirror)?
            )
        } else {
            // Without the second line Terraform downloads again what it has no hash of.
            format!(
                "plugin_cache_dir = {}\nplugin_cache_may_break_dependency_lock_file = true\n",
                quoted(cache)?
            )
        })
    }

    /// The CLI configuration for the plugins of inputs; written once.
    fn cli(&self, inputs: &Inputs) -> io::Result<PathBuf> {
        let mirror = inputs.plugins.mirror.as_deref();
        let cache = match mirror {
            Some(_) => self.folders.plugins_of(inputs),
            None => self.folders.make_plugins_of(inputs)?,
        };
        let text = Self::cli_text(mirror, &cache)?;
        let path = self.folders.cli().join(format!("{}.tfrc", &sha256([text.as_bytes()])[..16]));
        if !path.exists() {
            let temporary = path.with_extension(format!("{:?}", std::thread::current().id()));
            write_private(&temporary, text.as_bytes())?;
            std::fs::rename(temporary, &path)?;
        }
        Ok(path)
    }

    /// The confinement of a process that writes there, and reads there besides what every process reads; `None` where none is
    /// confined. `fills`: it fills the plugin cache, which is read-only for all that run module code.
    pub fn sandbox(&self, write: &[&Path], read: &[&Path], inputs: &Inputs, fills: bool) -> Option<Rules> {
        if !self.sandbox {
            return None;
        }
        let (cli, cache) = (self.folders.cli(), self.folders.plugins_of(inputs));
        let cache = cache.as_path();
        let source = inputs.host_source();
        let write = write.iter().copied().chain(fills.then_some(cache));
        let read = read.iter().copied().chain([cli.as_path(), cache]);
        let read = read.chain(inputs.plugins.mirror.as_deref()).chain(source.as_deref());
        Some(Rules::new(write, read, &self.path))
    }
}
