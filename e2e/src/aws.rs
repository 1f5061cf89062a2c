//! AWS without AWS: the real provider from a plugin mirror, and moto, which answers like the cloud.

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::net::{TcpListener, TcpStream};

use crate::{
    process::{Folder, Process, ProcessError},
    wait::{TimedOut, until},
};

/// A second on an idle machine; Python reads much before it answers.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// A folder with provider plugins that has the AWS provider: the places where Terraform looks by itself,
/// `CAPT_PLUGIN_MIRROR`, and what is installed below /opt.
pub fn aws_mirror() -> Option<PathBuf> {
    let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let mut places = vec![
        home.join(".terraform.d/plugins"),
        "/usr/local/share/terraform/plugins".into(),
        "/usr/share/terraform/plugins".into(),
    ];
    places.extend(env::var_os("CAPT_PLUGIN_MIRROR").map(PathBuf::from));
    places.extend(fs::read_dir("/opt").into_iter().flatten().flatten().map(|entry| entry.path()));
    // A mirror is laid out as HOST/NAMESPACE/NAME.
    let has_aws = |place: &PathBuf| {
        let hosts = fs::read_dir(place).into_iter().flatten().flatten();
        hosts.map(|host| host.path()).any(|host| host.join("hashicorp/aws").is_dir())
    };
    places.into_iter().find(has_aws)
}

/// Why there is no moto.
#[derive(Debug, thiserror::Error)]
pub enum MotoError {
    /// Its process could not be started.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// No port could be had on the loopback interface.
    #[error("reserve a loopback port")]
    Port(#[source] std::io::Error),
    /// The time was up.
    #[error("{timeout}\n{log}")]
    NotReady {
        /// What did not happen.
        timeout: TimedOut,
        /// What moto said.
        log: String,
    },
}

/// A running moto server.
#[derive(Debug)]
pub struct Moto {
    url: String,
    process: Process,
}

impl Moto {
    /// The program, on `PATH` or where `make tools` puts it.
    pub fn find() -> Option<PathBuf> {
        let cache = env::var_os("CAPT_CACHE_DIR").map(PathBuf::from).or_else(|| {
            let xdg = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
            Some(xdg.or_else(|| Some(Path::new(&env::var_os("HOME")?).join(".cache")))?.join("capt"))
        });
        let path = env::var_os("PATH").unwrap_or_default();
        let folders = env::split_paths(&path).chain(cache.map(|cache| cache.join("moto/bin")));
        folders.map(|folder| folder.join("moto_server")).find(|program| program.is_file())
    }

    /// Starts one on a free port of the loopback interface.
    pub async fn start(program: &Path) -> Result<Self, MotoError> {
        let port = {
            let listener = TcpListener::bind("127.0.0.1:0").await.map_err(MotoError::Port)?;
            listener.local_addr().map_err(MotoError::Port)?.port()
        };
        let process = Folder::new("moto")?
            .run(program, ["-H".to_owned(), "127.0.0.1".into(), "-p".into(), port.to_string()])?;
        let answers = until("moto listens", READY_WITHIN, async || {
            TcpStream::connect(("127.0.0.1", port)).await.ok().map(drop)
        });
        match answers.await {
            Ok(()) => Ok(Self { url: format!("http://127.0.0.1:{port}"), process }),
            Err(timeout) => Err(MotoError::NotReady { timeout, log: process.log_tail(30) }),
        }
    }

    /// Where it answers.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The last requests, and what went wrong with them.
    pub fn log_tail(&self, lines: usize) -> String {
        self.process.log_tail(lines)
    }
}
