//! Confinement of Terraform runs: the folders that objects may name, and the support of the kernel.

use std::io;
use std::path::{Path, PathBuf};

use capt_terraform::{Options, sandbox};

/// Options of `capt up` and `capt controller` for confining runs.
#[derive(Debug, clap::Args)]
pub struct Confine {
    /// Folder of this machine that objects may name: for local modules, plugin mirrors and caches. May be given several
    /// times; without it objects may name none.
    #[arg(long = "allow-path", value_name = "DIR")]
    allow_paths: Vec<PathBuf>,
    /// Refuse to start where the kernel cannot fully confine runs of Terraform.
    #[arg(long)]
    require_sandbox: bool,
}

impl Confine {
    /// Refuses a machine that cannot confine, where that was asked for; else gives the line that says what is not protected.
    pub fn check(&self, data: &Path) -> io::Result<Option<String>> {
        judge(&gaps(data), self.require_sandbox)
    }

    /// Confines an engine. `files`: what the operator applies lies beside what it names.
    pub fn set(&self, options: &mut Options, data: &Path, files: &[PathBuf]) -> io::Result<()> {
        options.sandbox = true;
        options.allow_paths = self.roots(files)?;
        options.refuse_paths = vec![data.to_owned()];
        Ok(())
    }

    /// The folders that were given, and those of files that were.
    pub fn roots(&self, files: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
        let mut roots = Vec::new();
        for path in &self.allow_paths {
            let real = std::fs::canonicalize(path).and_then(|real| {
                if real.is_dir() { Ok(real) } else { Err(io::Error::from(io::ErrorKind::NotADirectory)) }
            });
            let failed = |error| io::Error::other(format!("--allow-path {}: {error}", path.display()));
            roots.push(real.map_err(failed)?);
        }
        let files = files.iter().filter(|path| path.as_os_str() != "-");
        roots.extend(files.filter_map(|path| {
            let real = std::fs::canonicalize(path).ok()?;
            if real.is_dir() { Some(real) } else { real.parent().map(Path::to_path_buf) }
        }));
        roots.sort();
        roots.dedup();
        Ok(roots)
    }
}

/// Prints that line. Not on standard output, which programs read.
pub fn say(warning: Option<&str>) {
    if let Some(warning) = warning {
        anstream::eprintln!("capt: {warning}");
    }
}

/// Gaps in the confinement: of the kernel, or because of the location of the data folder.
pub fn gaps(data: &Path) -> Vec<String> {
    let mut gaps: Vec<String> = sandbox::gaps().into_iter().map(str::to_owned).collect();
    let path = std::env::var_os("PATH").unwrap_or_default();
    gaps.extend(sandbox::exposes(data, &path).map(|readable| {
        format!(
            "reading the data folder, which lies below {}, where runs read programs (choose another --data-dir)",
            readable.display()
        )
    }));
    gaps
}

/// One line on what is not protected, if anything.
pub fn warning(gaps: &[String]) -> Option<String> {
    (!gaps.is_empty()).then(|| {
        format!(
            "runs of Terraform are not fully confined: this machine does not keep a run from {} (see docs/security.md)",
            gaps.join(", nor from ")
        )
    })
}

fn judge(gaps: &[String], required: bool) -> io::Result<Option<String>> {
    match warning(gaps) {
        Some(warning) if required => Err(io::Error::other(format!(
            "{warning}\n  --require-sandbox was given: use a kernel with Landlock, Linux 6.12 or newer, or leave it out"
        ))),
        other => Ok(other.map(|line| format!("warning: {line}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_protected_is_said_and_can_be_refused() {
        assert_eq!(judge(&[], false).unwrap(), None);
        assert_eq!(judge(&[], true).unwrap(), None);
        let gaps = ["reading other workspaces", "using ioctl"].map(str::to_owned);
        let told = judge(&gaps, false).unwrap().unwrap();
        assert!(told.contains("reading other workspaces, nor from using ioctl"), "{told}");
        assert!(!told.contains('\n'), "one line: {told}");
        let refused = judge(&gaps, true).unwrap_err().to_string();
        assert!(refused.contains("--require-sandbox"), "{refused}");
        let exposed = super::gaps(Path::new("/opt/capt"));
        assert!(exposed.iter().any(|gap| gap.contains("below /opt")), "{exposed:?}");
    }

    #[test]
    fn what_is_applied_lies_beside_what_it_names() {
        let lab = tempfile::tempdir().unwrap();
        let lab = std::fs::canonicalize(lab.path()).unwrap();
        let (folder, file) = (lab.join("manifests"), lab.join("one/cluster.yaml"));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::create_dir_all(lab.join("one")).unwrap();
        std::fs::write(&file, "").unwrap();
        let confine = |paths: &[&Path]| Confine {
            allow_paths: paths.iter().map(|path| path.to_path_buf()).collect(),
            require_sandbox: false,
        };
        let files = [folder.clone(), file.clone(), PathBuf::from("-"), lab.join("missing.yaml")];
        assert_eq!(confine(&[]).roots(&files).unwrap(), [folder.clone(), lab.join("one")]);
        assert_eq!(confine(&[&lab]).roots(&[]).unwrap(), std::slice::from_ref(&lab));
        let refused = confine(&[&lab.join("missing")]).roots(&[]).unwrap_err().to_string();
        assert!(refused.contains("--allow-path"), "{refused}");
        assert!(confine(&[&file]).roots(&[]).is_err(), "a file is no folder");
    }
}
