//! Default folders of CAPT on this machine.

use std::io;
use std::path::{Path, PathBuf};

/// Names the data folder instead of the platform's convention.
pub const VARIABLE: &str = "CAPT_DATA_DIR";

/// The data folder of `capt up` and of everything that looks at it: `$CAPT_DATA_DIR`, else what the platform says.
pub fn default_folder() -> io::Result<PathBuf> {
    choose(cfg!(target_os = "macos"), |name| std::env::var_os(name).map(PathBuf::from))
}

/// The kubeconfig that the embedded API writes into its data folder.
pub fn kubeconfig(folder: &Path) -> PathBuf {
    folder.join("kubeconfig")
}

/// The folder of the engine in a data folder.
pub fn engine(folder: &Path) -> PathBuf {
    folder.join("terraform")
}

fn choose(macos: bool, variable: impl Fn(&str) -> Option<PathBuf>) -> io::Result<PathBuf> {
    let named = |name: &str| variable(name).filter(|path| !path.as_os_str().is_empty());
    if let Some(folder) = named(VARIABLE) {
        return Ok(folder);
    }
    // The XDG specification says to ignore paths that are not absolute.
    if let Some(folder) = named("XDG_DATA_HOME").filter(|path| !macos && path.is_absolute()) {
        return Ok(folder.join("capt"));
    }
    let home = named("HOME").ok_or_else(|| {
        io::Error::other(format!(
            "there is no home folder to keep data in: name a folder with {VARIABLE} or --data-dir"
        ))
    })?;
    Ok(home.join(if macos { "Library/Application Support/capt" } else { ".local/share/capt" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_platform_has_its_convention() {
        let rows = [
            ("HOME=/h", false, "/h/.local/share/capt"),
            ("HOME=/h", true, "/h/Library/Application Support/capt"),
            ("HOME=/h XDG_DATA_HOME=/x", false, "/x/capt"),
            ("HOME=/h XDG_DATA_HOME=x", false, "/h/.local/share/capt"),
            ("HOME=/h XDG_DATA_HOME=/x", true, "/h/Library/Application Support/capt"),
            ("HOME=/h XDG_DATA_HOME=/x CAPT_DATA_DIR=d", true, "d"),
        ];
        for (variables, macos, wanted) in rows {
            let variable = |name: &str| {
                let mut pairs = variables.split(' ').filter_map(|pair| pair.split_once('='));
                pairs.find(|(key, _)| *key == name).map(|(_, value)| PathBuf::from(value))
            };
            assert_eq!(choose(macos, variable).unwrap(), PathBuf::from(wanted), "{variables}");
        }
        assert!(choose(false, |_| None).unwrap_err().to_string().contains("--data-dir"));
    }
}
