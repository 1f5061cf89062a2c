//! The environment of every process: an allow-list, what the inputs name, and our own.

use std::{
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
};

use crate::{
    failure::Failure,
    folders::Folders,
    hash::sha256,
    inputs::{Inputs, Roots},
    private_files::{make_private, write_private},
    sandbox::{Grants, Rules},
};

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
    /// What of the host inputs may name: judged anew for each process, since links can be led elsewhere.
    pub roots: Roots,
}

/// Use that a process makes of the paths that inputs name.
#[derive(Clone, Copy, Default)]
pub(crate) struct Use {
    /// It reads the module from where it is. All others have a copy.
    pub fetches: bool,
    /// It fills the plugin cache, which is read-only for all that run module code.
    pub fills: bool,
}

impl Environment {
    pub fn new(folders: Folders, path: OsString, sandbox: bool, roots: Roots) -> Self {
        Self { folders, path, sandbox, roots }
    }

    /// The plugin cache of inputs.
    pub fn plugins_of(&self, inputs: &Inputs) -> Result<PathBuf, Failure> {
        Ok(inputs.real_cache(&self.roots)?.unwrap_or_else(|| self.folders.plugins_of(inputs)))
    }

    /// The same, where it is there. That of an object is the operator's to make: who names a path is not to choose where folders are made.
    pub fn make_plugins_of(&self, inputs: &Inputs) -> Result<PathBuf, Failure> {
        let cache = self.plugins_of(inputs)?;
        if inputs.plugins.cache.is_none() {
            make_private(&cache).map_err(|error| Failure::io("make the plugin cache", &error))?;
        }
        Ok(cache)
    }

    /// The environment of a process, with `scratch` as its home and for its temporary files. `light`: it starts no plugins, so its memory stays small without a garbage collector, which
    /// saves a tenth of the time of a small run.
    pub fn of(
        &self,
        inputs: &Inputs,
        data: &Path,
        scratch: &Path,
        light: bool,
    ) -> Result<Vec<(OsString, OsString)>, Failure> {
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
    ) -> Result<Vec<(OsString, OsString)>, Failure> {
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
    fn cli(&self, inputs: &Inputs) -> Result<PathBuf, Failure> {
        let mirror = inputs.real_mirror(&self.roots)?;
        let cache = match mirror {
            Some(_) => self.plugins_of(inputs)?,
            None => self.make_plugins_of(inputs)?,
        };
        self.write_cli(mirror.as_deref(), &cache)
            .map_err(|error| Failure::io("write a CLI configuration", &error))
    }

    fn write_cli(&self, mirror: Option<&Path>, cache: &Path) -> io::Result<PathBuf> {
        let text = Self::cli_text(mirror, cache)?;
        let path = self.folders.cli().join(format!("{}.tfrc", &sha256([text.as_bytes()])[..16]));
        if !path.exists() {
            let temporary = path.with_extension(format!("{:?}", std::thread::current().id()));
            write_private(&temporary, text.as_bytes())?;
            std::fs::rename(temporary, &path)?;
        }
        Ok(path)
    }

    /// The confinement of a process that writes there, and reads there besides what every process reads; `None` where none is
    /// confined.
    pub fn sandbox(
        &self,
        write: &[&Path],
        read: &[&Path],
        inputs: &Inputs,
        does: Use,
    ) -> Result<Option<Rules>, Failure> {
        if !self.sandbox {
            return Ok(None);
        }
        let (cli, cache) = (self.folders.cli(), self.plugins_of(inputs)?);
        let source = if does.fetches { inputs.real_source(&self.roots)? } else { None };
        let read = read.iter().copied().chain([cli.as_path()]);
        let rules = Rules::new(write.iter().copied(), read, &self.path);
        let named = inputs.real_mirror(&self.roots)?.into_iter().chain(source).chain([cache.clone()]);
        let real = Grants { write: does.fills.then_some(cache).into_iter().collect(), read: named.collect() };
        Ok(Some(Rules { real, ..rules }))
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;
    use crate::{failure::Reason, init_cache::ModuleFiles, module::Module, sandbox};

    /// A folder that may be named, with a module and a link to it, and a secret beside it.
    struct Lab {
        folder: PathBuf,
        environment: Environment,
        inputs: Inputs,
        _temporary: tempfile::TempDir,
    }

    impl Lab {
        fn new() -> Self {
            let temporary = tempfile::tempdir().unwrap();
            let folder = fs::canonicalize(temporary.path()).unwrap();
            for (name, file) in [("root/good", "main.tf"), ("secret", "main.tf")] {
                fs::create_dir_all(folder.join(name)).unwrap();
                fs::write(folder.join(name).join(file), name).unwrap();
            }
            symlink(folder.join("root/good"), folder.join("root/link")).unwrap();
            let folders = Folders::make(&folder.join("data")).unwrap();
            let roots = Roots { allowed: vec![folder.join("root")], never: vec![folder.join("data")] };
            let environment = Environment::new(folders, OsString::from("/usr/bin"), true, roots);
            let source = folder.join("root/link").display().to_string();
            let module = Module::Source { source, version: None, entrypoint: None };
            let mut inputs = Inputs { module, ..Inputs::inline("") };
            inputs.plugins.mirror = Some(folder.join("root/link"));
            Self { folder, environment, inputs, _temporary: temporary }
        }

        /// Leads a path to the secret.
        fn lead(&self, name: &str) {
            let path = self.folder.join(name);
            fs::rename(&path, self.folder.join("before")).unwrap();
            symlink(self.folder.join("secret"), path).unwrap();
        }

        fn rules(&self) -> Result<Rules, Failure> {
            let does = Use { fetches: true, fills: false };
            Ok(self.environment.sandbox(&[], &[], &self.inputs, does)?.expect("confined"))
        }

        /// Whether whoever is confined so can read these files.
        fn reads(&self, rules: &Rules, names: [&str; 2]) -> [bool; 2] {
            let paths = names.map(|name| self.folder.join(name));
            let rules = rules.clone();
            let read = move || {
                rules.enter().expect("confined");
                paths.map(|path| fs::read(path).is_ok())
            };
            std::thread::spawn(read).join().unwrap()
        }
    }

    #[test]
    fn what_is_swapped_after_it_was_judged_is_not_reached_by_runs() {
        if !sandbox::available() {
            capt_e2e::skip("the kernel has no Landlock");
            return;
        }
        for swapped in ["root/link", "root/good"] {
            let lab = Lab::new();
            let rules = lab.rules().unwrap();
            assert_eq!(lab.reads(&rules, ["root/link/main.tf", "secret/main.tf"]), [true, false]);
            lab.lead(swapped);
            let reads = lab.reads(&rules, ["root/link/main.tf", "secret/main.tf"]);
            assert_eq!(reads, [false, false], "{swapped}");
            assert_eq!(lab.rules().unwrap_err().reason, Reason::PathNotAllowed, "it is judged anew");
            let environment = lab.environment.of(&lab.inputs, &lab.folder, &lab.folder, false);
            assert_eq!(environment.unwrap_err().reason, Reason::PathNotAllowed, "{swapped}");
        }
    }

    #[test]
    fn what_is_swapped_after_it_was_judged_is_not_hashed() {
        let judged = |lab: &Lab| lab.inputs.real_source(&lab.environment.roots).unwrap().unwrap();
        let lab = Lab::new();
        let (found, before) = (judged(&lab), ModuleFiles::of(judged(&lab)).unwrap());
        lab.lead("root/link");
        assert_eq!(ModuleFiles::of(found.clone()).unwrap(), before, "what the link led to then");
        fs::remove_dir_all(&found).unwrap();
        symlink(lab.folder.join("secret"), &found).unwrap();
        let refused = ModuleFiles::of(found).unwrap_err().to_string();
        assert!(refused.contains("is a link"), "{refused}");
    }

    #[test]
    fn a_cache_that_is_swapped_is_not_written() {
        let mut lab = Lab::new();
        let cache = lab.folder.join("root/plugins");
        fs::create_dir(&cache).unwrap();
        symlink(&cache, lab.folder.join("root/cache")).unwrap();
        lab.inputs = Inputs::inline("");
        lab.inputs.plugins.cache = Some(lab.folder.join("root/cache"));
        assert_eq!(lab.environment.plugins_of(&lab.inputs), Ok(cache));
        // The module of another tenant, which may be named, and what may not.
        for elsewhere in ["root/good", "secret", "data"] {
            fs::remove_file(lab.folder.join("root/cache")).unwrap();
            symlink(lab.folder.join(elsewhere), lab.folder.join("root/cache")).unwrap();
            let does = Use { fills: true, fetches: false };
            let refused = lab.environment.sandbox(&[], &[], &lab.inputs, does).unwrap_err();
            assert_eq!(refused.reason, Reason::PathNotAllowed, "{elsewhere}");
            assert!(lab.environment.make_plugins_of(&lab.inputs).is_err(), "{elsewhere}");
        }
    }
}
