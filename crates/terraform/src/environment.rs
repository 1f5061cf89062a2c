//! The environment of every process: an allow-list, what the inputs name, and our own.

use std::{
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
};

use crate::{
    folders::{Folders, write_private},
    inputs::{Inputs, Plugins, sha256},
    sandbox::Rules,
};

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

    /// The environment of a process. `light`: it starts no plugins, so its memory stays small without a garbage collector, which
    /// saves a tenth of the time of a small run.
    pub fn of(&self, inputs: &Inputs, data: &Path, light: bool) -> io::Result<Vec<(OsString, OsString)>> {
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
        all.push(("HOME".into(), self.folders.home().into()));
        all.push(("TMPDIR".into(), self.folders.tmp().into()));
        all.extend(inputs.env.iter().map(|(name, value)| (name.into(), OsString::from(&value.value))));
        // Ours come last: an input cannot undo them.
        let cli = self.cli(&inputs.plugins)?;
        let own: [(&str, &OsStr); 5] = [
            ("TF_IN_AUTOMATION", "1".as_ref()),
            ("TF_INPUT", "0".as_ref()),
            ("CHECKPOINT_DISABLE", "1".as_ref()),
            ("TF_DATA_DIR", data.as_os_str()),
            ("TF_CLI_CONFIG_FILE", cli.as_os_str()),
        ];
        all.extend(own.map(|(name, value)| (name.into(), value.into())));
        Ok(all)
    }

    /// The CLI configuration for a source of plugins; written once.
    fn cli(&self, plugins: &Plugins) -> io::Result<PathBuf> {
        let quoted = |path: &Path| {
            serde_json::to_string(&path.to_string_lossy()).map(|text| text.replace("${", "$${"))
        };
        let text = if let Some(mirror) = &plugins.mirror {
            format!(
                "provider_installation {{\n  filesystem_mirror {{\n    path = {}\n  }}\n}}\n",
                quoted(mirror)?
            )
        } else {
            let cache = plugins.cache.clone().unwrap_or_else(|| self.folders.plugins());
            crate::folders::make_private(&cache)?;
            // Without the second line Terraform downloads again what it has no hash of.
            format!(
                "plugin_cache_dir = {}\nplugin_cache_may_break_dependency_lock_file = true\n",
                quoted(&cache)?
            )
        };
        let path = self.folders.cli().join(format!("{}.tfrc", &sha256([text.as_bytes()])[..16]));
        if !path.exists() {
            let temporary = path.with_extension(format!("{:?}", std::thread::current().id()));
            write_private(&temporary, text.as_bytes())?;
            std::fs::rename(temporary, &path)?;
        }
        Ok(path)
    }

    /// What a process may do that writes in `writable`; `None` where none is shut in.
    pub fn sandbox(&self, writable: &Path, inputs: &Inputs) -> Option<Rules> {
        if !self.sandbox {
            return None;
        }
        let plugins = &inputs.plugins;
        let (home, tmp, cache) = (self.folders.home(), self.folders.tmp(), self.folders.plugins());
        let write = [writable, &home, &tmp, &cache].into_iter().chain(plugins.cache.as_deref());
        let (cli, shapes) = (self.folders.cli(), self.folders.shapes());
        let read = [cli.as_path(), &shapes].into_iter().chain(plugins.mirror.as_deref());
        Some(Rules::new(write, read, &self.path))
    }
}
