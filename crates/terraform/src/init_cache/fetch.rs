//! Fetches the module of an entry, and the modules that it calls.

use std::{
    borrow::Cow,
    ffi::OsString,
    io,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::Value;

use super::{
    ModuleFiles,
    build::{Initializer, LISTED, holds},
    command::{Cache, InitCommand},
    local_folder,
};
use crate::{
    beneath::{Dir, copy_tree, remove},
    binary::Program,
    blocking::in_place,
    failure::{Failure, Reason},
    generated::{CALL, FETCHED},
    inputs::Inputs,
    module::Module,
    private_files::{make_private, write_private},
};

/// `modules.json`: what was fetched. Code of a module may have written it.
#[derive(Deserialize)]
struct Listed<'a> {
    #[serde(rename = "Modules", borrow)]
    modules: Vec<ListedModule<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ListedModule<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    #[serde(borrow)]
    dir: Cow<'a, str>,
}

impl Initializer {
    /// Brings the module into `package`, and says where in it the root is, and whether there is a package at all.
    pub(super) async fn fetch(
        &self,
        folder: &Path,
        inputs: &Inputs,
        files: Option<&ModuleFiles>,
        binary: &Program,
    ) -> Result<(PathBuf, bool), Failure> {
        let Module::Source { source, entrypoint, .. } = &inputs.module else {
            return Ok((PathBuf::new(), false));
        };
        let package = folder.join("package");
        let below = if let Some((from, below)) = local_folder(&inputs.module) {
            // Off the runtime's threads: it may be large, and its disk slow.
            let from = files.map_or(from, |files| files.folder.clone());
            let into = package.clone();
            let copied = tokio::task::spawn_blocking(move || copy(&Dir::real(&from)?, &into)).await;
            let copied = copied.unwrap_or_else(|error| Err(io::Error::other(error)));
            let whole = match copied {
                Ok(()) => holds(&package, files),
                // A file that was there a moment ago.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
                Err(error) => Err(error),
            };
            if !whole.map_err(|error| not_found(&inputs.module, &error))? {
                let changed = io::Error::other(format!("{source} changed while it was read"));
                return Err(Failure::io("copy the module", &changed));
            }
            below
        } else {
            self.download(folder, inputs, binary).await?
        };
        let root = match entrypoint {
            Some(entrypoint) => below.join(entrypoint.trim_start_matches("./").trim_matches('/')),
            None => below,
        };
        if Dir::open(&package).and_then(|package| package.below(&root)).is_err() {
            let message = format!("{source} has no folder {}", root.display());
            return Err(Failure::new(Reason::ModuleNotFound, message));
        }
        Ok((root, true))
    }

    /// Lets the binary fetch a module, as it does for any module call: registries, git, archives, with their versions.
    async fn download(&self, folder: &Path, inputs: &Inputs, binary: &Program) -> Result<PathBuf, Failure> {
        let Module::Source { source, version, .. } = &inputs.module else { return Ok(PathBuf::new()) };
        let scratch = folder.join("fetch");
        let io = |error: io::Error| Failure::io("fetch a module", &error);
        make_private(&scratch).map_err(io)?;
        let mut call = serde_json::json!({"module": {FETCHED: {"source": source}}});
        if let Some(version) = version {
            call["module"][FETCHED]["version"] = Value::from(version.as_str());
        }
        write_private(&scratch.join(CALL), call.to_string().as_bytes()).map_err(io)?;
        let args = ["get", "-no-color"].map(OsString::from).to_vec();
        self.run(
            InitCommand {
                stage: "get",
                folder,
                top: &scratch,
                start: &scratch,
                data: &scratch.join("data"),
                cache: Cache::Read,
                fetches: true,
                args,
            },
            inputs,
            binary,
        )
        .await
        .map_err(|failure| of_source(failure, source))?;
        let fetched = Dir::open(&scratch).map_err(io)?;
        let listed = fetched.read(Path::new("data/modules/modules.json"), LISTED).map_err(io)?;
        let listed = listed.unwrap_or_default();
        let Listed { modules } = serde_json::from_slice(&listed).map_err(|error| io(error.into()))?;
        let root = modules.iter().find(|module| module.key == FETCHED);
        let root = root.map(|module| PathBuf::from(&*module.dir)).unwrap_or_default();
        let package = scratch.join("data/modules").join(FETCHED);
        let below = root.strip_prefix(&package).map(Path::to_path_buf).unwrap_or_default();
        let package = fetched.below(&Path::new("data/modules").join(FETCHED)).map_err(io)?;
        copy(&package, &folder.join("package")).map_err(|error| not_found(&inputs.module, &error))?;
        remove(&scratch).map_err(io)?;
        Ok(below)
    }

    /// Fetches the modules that the root calls. That runs git, which can be made to run more: so it is done apart from `init`, where nothing
    /// can be written that others use.
    pub(super) async fn get(
        &self,
        folder: &Path,
        top: &Path,
        root: &Path,
        inputs: &Inputs,
        binary: &Program,
    ) -> Result<(), Failure> {
        let update = inputs.args.init.iter().any(|arg| arg.trim_start_matches('-') == "upgrade");
        let args = ["get", "-no-color"].into_iter().chain(update.then_some("-update"));
        let (args, data) = (args.map(OsString::from).collect(), folder.join("data"));
        let step = InitCommand {
            stage: "get",
            folder,
            top,
            start: root,
            data: &data,
            cache: Cache::Read,
            fetches: false,
            args,
        };
        self.run(step, inputs, binary).await.map_err(|failure| match failure.reason {
            Reason::InitFailed => Failure::new(Reason::ModuleNotFound, failure.message),
            _ => failure,
        })?;
        let cleared = Dir::open(&data).and_then(|data| data.remove(Path::new("providers")));
        cleared.map_err(|error| Failure::io("fetch modules", &error))
    }
}

pub(super) fn copy(from: &Dir, to: &Path) -> io::Result<()> {
    in_place(|| copy_tree(from, &Dir::make(to)?).map(drop))
}

/// Names the source where a failure to fetch it does not, and no file that nobody wrote.
fn of_source(failure: Failure, source: &str) -> Failure {
    // Told without its folder (`//a`), which is not fetched by itself; a module within it is told by its name, in quotes.
    let told = failure.message.contains(source)
        || failure.message.starts_with("module ") && !failure.message.starts_with("module \"");
    if told {
        return failure;
    }
    let message = format!("module {source} cannot be fetched: {}", failure.message);
    failure.saying(&message)
}

fn not_found(module: &Module, error: &io::Error) -> Failure {
    let Module::Source { source, .. } = module else { return Failure::io("read the module", error) };
    Failure::new(Reason::ModuleNotFound, format!("{source}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_of_a_module_is_told_once() {
        for (message, expected) in [
            ("module git::x?ref=1 cannot be fetched: no", "module git::x?ref=1 cannot be fetched: no"),
            ("no versions", "module git::x//a?ref=1 cannot be fetched: no versions"),
            (
                "module \"vpc\" (m.tf:3) cannot be fetched: no",
                "module git::x//a?ref=1 cannot be fetched: module \"vpc\" (m.tf:3) cannot be fetched: no",
            ),
        ] {
            let failure = Failure::new(Reason::ModuleNotFound, message.to_owned());
            assert_eq!(of_source(failure, "git::x//a?ref=1").message, expected);
        }
    }
}
