//! Paths of the host that inputs name: module folders, plugin mirrors and caches.
//!
//! An object in a namespace is a tenant's, and the host is the operator's: such a path must lie below a root that the operator
//! gave, links resolved. What never is allowed: the data folder, anything in it, and anything around it. A plugin cache, which
//! alone is written to, is a folder of its own that is there.
//!
//! A link can be led elsewhere at any moment, so nothing is opened by the path that was written. [`Roots::real`] follows links once
//! and judges where they lead; that path, which has none, is what is used, and whoever opens it follows no link
//! ([`Dir::real`](crate::beneath::Dir::real), [`Rules`](crate::sandbox::Rules)).
//!
//! What the text of a module reads itself (`file("/etc/…")`, a nested `source`, a `local` backend) is the sandbox's to refuse.

use std::{
    ffi::OsStr,
    fs,
    path::{Component, Path, PathBuf},
};

use super::Inputs;
use crate::{
    failure::{Failure, Reason},
    module::Module,
    redact::one_line,
};

/// Getters that Terraform and OpenTofu know by name, as in `git::https://…`.
const GETTERS: [&str; 9] = ["git", "hg", "http", "https", "s3", "gcs", "oci", "file", "ssh"];

/// Schemes of addresses that lie on other machines.
const REMOTE: [&str; 7] = ["https", "http", "ssh", "git", "s3", "gcs", "oci"];

/// Kind of a module's source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ModuleSourceKind {
    /// To another machine, or a registry.
    Elsewhere,
    /// To a path of this one.
    Host(PathBuf),
    /// To a path that depends on where Terraform starts, or to something that nobody can tell.
    Unclear,
}

/// Tells where a source leads, as Terraform would take it.
pub(crate) fn source_kind(source: &str) -> ModuleSourceKind {
    if !is_plain(source) {
        return ModuleSourceKind::Unclear;
    }
    let mut rest = source;
    let fetched = rest.contains("::");
    while let Some((getter, after)) = rest.split_once("::") {
        if !GETTERS.contains(&getter) {
            return ModuleSourceKind::Unclear;
        }
        rest = after;
    }
    // What is no plain path would be another one to Terraform, or to CAPT where it copies the folder itself.
    let host = |path: &str| {
        if path.contains(['%', '#']) || (path.contains('?') && !fetched) {
            return ModuleSourceKind::Unclear;
        }
        ModuleSourceKind::Host(package(path))
    };
    if let Some((scheme, after)) = rest.split_once("://") {
        return match scheme {
            "file" if after.starts_with('/') => host(after),
            scheme if REMOTE.contains(&scheme) => ModuleSourceKind::Elsewhere,
            _ => ModuleSourceKind::Unclear,
        };
    }
    match rest.as_bytes() {
        [b'/', ..] => host(rest),
        // `file:/etc`, `~/x`, `./x`, `..`, `C:\x`, an option to git.
        [] | [b'.' | b'~' | b'\\' | b'-', ..] => ModuleSourceKind::Unclear,
        _ if rest.contains('\\') || rest.starts_with("file:") => ModuleSourceKind::Unclear,
        _ => ModuleSourceKind::Elsewhere,
    }
}

/// Returns true if a text can be shown as it is.
fn is_plain(text: &str) -> bool {
    one_line(text, usize::MAX) == text
}

/// The part of a local source that is fetched: without the folder below it, and without options.
fn package(path: &str) -> PathBuf {
    let path = path.split_once("//").map_or(path, |(package, _)| package);
    PathBuf::from(path.split_once('?').map_or(path, |(path, _)| path))
}

/// The folders of the host that inputs may name, and those that they may not.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roots {
    pub allowed: Vec<PathBuf>,
    pub never: Vec<PathBuf>,
}

impl Roots {
    /// Resolves the links of a path, if it may be named.
    fn real(&self, path: &Path) -> Option<PathBuf> {
        // What steers terminals is no path that anybody means.
        let path = path.to_str().filter(|text| is_plain(text)).map(Path::new).and_then(resolved)?;
        let below = |root: &PathBuf| fs::canonicalize(root).is_ok_and(|root| path.starts_with(root));
        let touches = |own: &PathBuf| fs::canonicalize(own).is_ok_and(|own| touch(&own, &path));
        (self.allowed.iter().any(below) && !self.never.iter().any(touches)).then_some(path)
    }

    /// The same for a field, with what to say where it may not name that path.
    fn real_of(&self, what: &str, path: &Path) -> Result<PathBuf, Failure> {
        self.real(path).ok_or_else(|| {
            let message = format!(
                "{what} {} is a path of the host, and lies below no folder that the operator allows: start capt with \
                 --allow-path DIR, or take it from elsewhere",
                path.display()
            );
            Failure::new(Reason::PathNotAllowed, message)
        })
    }
}

impl Inputs {
    /// The module's own folder or repository, where it is on this machine.
    fn host_source(&self) -> Result<Option<PathBuf>, Failure> {
        let Module::Source { source, .. } = &self.module else { return Ok(None) };
        match source_kind(source) {
            ModuleSourceKind::Elsewhere => Ok(None),
            ModuleSourceKind::Host(path) => Ok(Some(path)),
            ModuleSourceKind::Unclear => {
                let message = format!(
                    "module source {source:?} is neither an address nor an absolute path: write https://, git::https://, a \
                     registry's name, or a path below a folder that the operator allows with --allow-path"
                );
                Err(Failure::new(Reason::PathNotAllowed, message))
            }
        }
    }

    /// Path of the module's folder or repository, with links resolved.
    pub(crate) fn real_source(&self, roots: &Roots) -> Result<Option<PathBuf>, Failure> {
        self.host_source()?.map(|path| roots.real_of("module source", &path)).transpose()
    }

    /// Path of the plugin mirror, with links resolved.
    pub(crate) fn real_mirror(&self, roots: &Roots) -> Result<Option<PathBuf>, Failure> {
        let mirror = self.plugins.mirror.as_ref();
        mirror.map(|path| roots.real_of("plugins.mirror", path)).transpose()
    }

    /// Where the plugin cache is, links followed. It is written to. So it is a folder that the operator made for it, and no part of
    /// a module: what lies below an allowed root can be the module of another tenant.
    pub(crate) fn real_cache(&self, roots: &Roots) -> Result<Option<PathBuf>, Failure> {
        let Some(cache) = &self.plugins.cache else { return Ok(None) };
        let real = roots.real_of("plugins.cache", cache)?;
        let refused = |why: &str| {
            Failure::new(Reason::PathNotAllowed, format!("plugins.cache {} {why}", cache.display()))
        };
        if !fs::symlink_metadata(&real).is_ok_and(|found| found.is_dir()) {
            return Err(refused(
                "is not there as a folder, and CAPT makes none outside of its data folder: make the folder, for plugins alone",
            ));
        }
        let others = self.host_source()?.map(|path| ("module source", path));
        let others =
            others.into_iter().chain(self.plugins.mirror.clone().map(|path| ("plugins.mirror", path)));
        for (what, path) in others {
            if resolved(&path).is_some_and(|path| touch(&path, &real)) {
                let path = path.display();
                return Err(refused(&format!("is at, in or around {what} {path}: {OF_ITS_OWN}")));
            }
        }
        if let Some(module) = of_module(&roots.allowed, &real) {
            let why = format!("lies in {}, the folder of a module: {OF_ITS_OWN}", module.display());
            return Err(refused(&why));
        }
        Ok(Some(real))
    }

    /// Refuses paths of the host that may not be named.
    pub(crate) fn check_paths(&self, roots: &Roots) -> Result<(), Failure> {
        self.real_source(roots)?;
        self.real_mirror(roots)?;
        self.real_cache(roots)?;
        Ok(())
    }
}

const OF_ITS_OWN: &str = "make a folder for plugins alone";

/// Ends of names that are texts of a module.
const TEXTS: [&str; 4] = [".tf", ".tf.json", ".tofu", ".tofu.json"];

/// The folder of a module that a folder below a root is, or is in.
fn of_module<'a>(roots: &[PathBuf], folder: &'a Path) -> Option<&'a Path> {
    let roots: Vec<PathBuf> = roots.iter().filter_map(|root| fs::canonicalize(root).ok()).collect();
    let below = |folder: &&Path| roots.iter().any(|root| folder.starts_with(root));
    let is_text = |name: &OsStr| {
        let name = name.as_encoded_bytes();
        TEXTS.iter().any(|end| name.ends_with(end.as_bytes()))
    };
    // What cannot be listed is no module that CAPT could read.
    let holds = |folder: &&Path| {
        fs::read_dir(folder)
            .is_ok_and(|mut all| all.any(|entry| entry.is_ok_and(|it| is_text(&it.file_name()))))
    };
    folder.ancestors().take_while(below).find(holds)
}

/// Returns true if one path is the other, or below it.
fn touch(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// A path without links. What does not exist yet is taken as it is written, below the last folder that does.
fn resolved(path: &Path) -> Option<PathBuf> {
    if !path.is_absolute() {
        return None;
    }
    let mut there = path;
    loop {
        if let Ok(real) = fs::canonicalize(there) {
            let rest = path.strip_prefix(there).ok()?;
            let plain = rest.components().all(|part| matches!(part, Component::Normal(_)));
            // An empty rest would add a slash.
            return plain.then(|| real.join(rest).components().collect());
        }
        // A link that leads nowhere yet may lead anywhere later.
        if fs::symlink_metadata(there).is_ok() {
            return None;
        }
        there = there.parent()?;
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn sources_are_told_apart() {
        let host = |path: &str| ModuleSourceKind::Host(PathBuf::from(path));
        let rows = [
            ("terraform-aws-modules/vpc/aws", ModuleSourceKind::Elsewhere),
            ("app.terraform.io/org/vpc/aws", ModuleSourceKind::Elsewhere),
            ("github.com/org/repo//modules/x?ref=v1", ModuleSourceKind::Elsewhere),
            ("git@github.com:org/repo.git", ModuleSourceKind::Elsewhere),
            ("git::https://example.com/x.git//sub?ref=v1", ModuleSourceKind::Elsewhere),
            ("git::ssh://git@example.com/x.git", ModuleSourceKind::Elsewhere),
            ("s3::https://s3.amazonaws.com/b/x.zip", ModuleSourceKind::Elsewhere),
            ("https://example.com/x.zip", ModuleSourceKind::Elsewhere),
            ("/srv/modules/x", host("/srv/modules/x")),
            ("/srv/modules//x", host("/srv/modules")),
            ("file:///srv/modules/x", host("/srv/modules/x")),
            ("git::file:///srv/repo//sub/../..?ref=v1", host("/srv/repo")),
            ("git::/srv/repo?ref=v1", host("/srv/repo")),
            ("file::/srv/x.zip", host("/srv/x.zip")),
            ("git::file::///srv/x", host("")),
            ("./x", ModuleSourceKind::Unclear),
            ("../../workspaces", ModuleSourceKind::Unclear),
            ("..", ModuleSourceKind::Unclear),
            ("git::../x", ModuleSourceKind::Unclear),
            ("~/x", ModuleSourceKind::Unclear),
            ("file:/etc", ModuleSourceKind::Unclear),
            ("FILE:///etc", ModuleSourceKind::Unclear),
            ("file://localhost/etc", ModuleSourceKind::Unclear),
            ("file:///%65tc", ModuleSourceKind::Unclear),
            ("/srv/x?/../../etc", ModuleSourceKind::Unclear),
            ("git::file:///srv#/../etc", ModuleSourceKind::Unclear),
            ("ext::sh", ModuleSourceKind::Unclear),
            ("/srv/x\u{1b}[31m", ModuleSourceKind::Unclear),
            ("https://example.com/\u{202e}x.zip", ModuleSourceKind::Unclear),
            ("/srv/x\0", ModuleSourceKind::Unclear),
            ("git::ext::sh", ModuleSourceKind::Unclear),
            ("git::--upload-pack=x", ModuleSourceKind::Unclear),
            ("..\\x", ModuleSourceKind::Unclear),
            ("C:\\x", ModuleSourceKind::Unclear),
            ("", ModuleSourceKind::Unclear),
        ];
        for (source, expected) in rows {
            assert_eq!(source_kind(source), expected, "{source}");
        }
    }

    #[test]
    fn only_what_lies_below_a_root() {
        let lab = tempfile::tempdir().expect("a folder");
        let lab = fs::canonicalize(lab.path()).expect("a folder");
        let (root, outside, data) = (lab.join("root"), lab.join("outside"), lab.join("root/data"));
        for folder in [&root, &outside, &data, &lab.join("root-2"), &root.join("modules")] {
            fs::create_dir_all(folder).expect("a folder");
        }
        symlink(&outside, root.join("out")).expect("a link");
        symlink(root.join("modules"), outside.join("in")).expect("a link");
        symlink(lab.join("nowhere"), root.join("later")).expect("a link");
        let roots = Roots { allowed: vec![root.clone(), lab.join("missing")], never: vec![data.clone()] };
        let rows = [
            (root.join("modules"), true),
            (root.join("new/cache"), true),
            (outside.join("in"), true),
            (root.join("modules/../modules"), true),
            (outside.clone(), false),
            (lab.join("root-2"), false),
            (root.join("../outside"), false),
            (root.join("out"), false),
            (root.join("out/new"), false),
            (root.join("later"), false),
            (root.join("new/../../outside"), false),
            (lab.join("missing/x"), false),
            (PathBuf::from("/"), false),
            (PathBuf::from("root/modules"), false),
            // The data folder, what is in it, and what it is in.
            (data.clone(), false),
            (data.join("pki"), false),
            (root.clone(), false),
        ];
        for (path, expected) in rows {
            assert_eq!(roots.real(&path).is_some(), expected, "{}", path.display());
        }
        assert_eq!(Roots::default().real(&root), None, "nothing is allowed unless somebody says so");
    }
}
