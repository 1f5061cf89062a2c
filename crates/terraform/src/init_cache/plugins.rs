//! The plugin cache, which all workspaces share, is filled by a command that reads no text of a module.
//!
//! `init` of a module may run its code: credentials of a backend can come from programs. So it installs into a folder of its own, where
//! the packages of the cache are linked. What it chose and the cache lacks is installed once more, by the `init` of a module of ours that
//! has nothing but names and exact versions. Runs then use the packages of the cache, and none that a module's code could have touched.

use std::{
    io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};

use crate::{beneath::Dir, private_files::make_private};

/// Host, namespace, type, version, platform.
const DEPTH: usize = 5;

/// A provider that `init` chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    /// `registry.terraform.io/hashicorp/aws`.
    address: String,
    version: String,
}

impl Chosen {
    fn below(&self, folder: &Path) -> PathBuf {
        folder.join(&self.address).join(&self.version)
    }
}

/// Makes a folder that has all packages of the cache, as links. Whoever may write a cache may put links into it: none is followed to
/// learn what is behind it.
pub(super) fn stage(cache: &Path, into: &Path) -> io::Result<()> {
    make_private(into)?;
    stage_below(&Dir::real(cache)?, cache, into, DEPTH)
}

fn stage_below(from: &Dir, cache: &Path, into: &Path, depth: usize) -> io::Result<()> {
    for name in from.names(usize::MAX)? {
        let (there, here) = (cache.join(&name), into.join(&name));
        if depth == 1 {
            symlink(&there, &here)?;
        } else if let Ok(below) = from.below(Path::new(&name)) {
            make_private(&here)?;
            stage_below(&below, &there, &here, depth - 1)?;
        }
    }
    Ok(())
}

/// The providers in a lock file. `None` where it names something that is no provider: it was written where code of the module runs.
pub(super) fn chosen(lock: &str) -> Option<Vec<Chosen>> {
    let mut all = Vec::new();
    let mut address = None;
    for line in lock.lines().map(str::trim) {
        if let Some(named) = line.strip_prefix("provider \"").and_then(|rest| rest.strip_suffix("\" {")) {
            address = Some(named);
        } else if let Some(version) = line.strip_prefix("version").and_then(quoted) {
            all.push(Chosen { address: address.take()?.to_owned(), version: version.to_owned() });
        }
    }
    let part = |text: &str| {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b".-_+:".contains(&byte);
        !text.is_empty() && !text.starts_with('.') && text.bytes().all(known)
    };
    let sound = |chosen: &Chosen| {
        chosen.address.split('/').count() == 3 && chosen.address.split('/').all(part) && part(&chosen.version)
    };
    all.iter().all(sound).then_some(all)
}

/// The value of `= "value"`.
fn quoted(rest: &str) -> Option<&str> {
    rest.trim_start().strip_prefix('=')?.trim_start().strip_prefix('"')?.strip_suffix('"')
}

/// Those that the cache lacks.
pub(super) fn missing(cache: &Path, chosen: &[Chosen]) -> Vec<Chosen> {
    chosen.iter().filter(|chosen| !chosen.below(cache).is_dir()).cloned().collect()
}

/// A module that needs these and nothing else.
pub(super) fn module(needed: &[Chosen]) -> Value {
    let named = needed.iter().enumerate().map(|(at, Chosen { address, version })| {
        (format!("p{at}"), json!({"source": address, "version": format!("= {version}")}))
    });
    json!({"terraform": {"required_providers": named.collect::<Map<_, _>>()}})
}

/// Makes the data of an entry use the packages of the cache.
pub(super) fn link(cache: &Path, chosen: &[Chosen], data: &Path) -> io::Result<()> {
    let (data, packages) = (Dir::open(data)?, Dir::real(cache)?);
    data.remove(Path::new("providers"))?;
    for chosen in chosen {
        for platform in packages.below(&chosen.below(Path::new("")))?.names(usize::MAX)? {
            let place = chosen.below(Path::new("providers")).join(&platform);
            data.link(&place, &chosen.below(cache).join(&platform))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const LOCK: &str = "# made by init\nprovider \"registry.terraform.io/hashicorp/aws\" {\n  version     = \"5.1.0\"\n  constraints = \"~> 5\"\n}\n\nprovider \"example.com:8443/x/y\" {\n  version = \"1.0.0-beta+2\"\n}\n";

    #[test]
    fn providers_of_a_lock_file() {
        let all = chosen(LOCK).expect("sound");
        let names: Vec<_> = all.iter().map(|one| (one.address.as_str(), one.version.as_str())).collect();
        let (aws, own) = ("registry.terraform.io/hashicorp/aws", "example.com:8443/x/y");
        assert_eq!(names, [(aws, "5.1.0"), (own, "1.0.0-beta+2")]);
        assert_eq!(chosen(""), Some(Vec::new()));
        for forged in [
            "provider \"a/../b\" {\n  version = \"1\"\n}",
            "provider \"a/b/c/d\" {\n  version = \"1\"\n}",
            "provider \"a/b/c\" {\n  version = \"../../1\"\n}",
            "provider \"a/b/c\" {\n  version = \"${file(1)}\"\n}",
            "version = \"1\"",
        ] {
            assert_eq!(chosen(forged), None, "{forged}");
        }
    }

    #[test]
    fn runs_use_the_packages_of_the_cache() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let package = "registry.terraform.io/hashicorp/aws/5.1.0/linux_amd64";
        fs::create_dir_all(path("cache").join(package)).expect("a package");
        // Names of folders elsewhere are nobody's to learn.
        fs::create_dir_all(path("elsewhere/a/b/c/d")).expect("a folder");
        symlink(path("elsewhere"), path("cache/example.com")).expect("a link");
        stage(&path("cache"), &path("staged")).expect("staged");
        assert!(!path("staged/example.com").exists(), "nothing behind a link");
        assert_eq!(fs::read_link(path("staged").join(package)).expect("a link"), path("cache").join(package));
        let all = chosen(LOCK).expect("sound");
        assert_eq!(missing(&path("cache"), &all), all[1..]);
        let wanted = json!({"p0": {"source": "example.com:8443/x/y", "version": "= 1.0.0-beta+2"}});
        assert_eq!(module(&all[1..])["terraform"]["required_providers"], wanted);
        // What code of the module put there instead is gone.
        let forged = path("data/providers").join(package);
        fs::create_dir_all(&forged).expect("forged");
        fs::write(forged.join("terraform-provider-aws"), "forged").expect("forged");
        link(&path("cache"), &all[..1], &path("data")).expect("linked");
        assert_eq!(fs::read_link(forged).expect("a link"), path("cache").join(package));
    }
}
