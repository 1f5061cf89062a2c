//! A place for states as Terraform's `http` backend talks to it. It can be made to fail, and what it holds can be changed.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;

/// What is served.
#[derive(Default)]
pub struct Held {
    pub state: Option<Vec<u8>>,
    /// As many reads fail.
    pub failing: usize,
    /// As many reads fail once something was written.
    pub failing_after_write: usize,
}

/// The place, until the test ends.
pub struct Served {
    held: Arc<Mutex<Held>>,
    address: String,
}

impl Served {
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let held = Arc::<Mutex<Held>>::default();
        let shared = Arc::clone(&held);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // Whoever hangs up in the middle, as one that is killed does, gets no answer.
                let _ = answer(stream, &shared);
            }
        });
        Self { held, address }
    }

    pub fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What names it in a module.
    pub fn block(&self) -> String {
        self.block_as("")
    }

    /// The same, as another address of the same place.
    pub fn block_as(&self, path: &str) -> String {
        format!(
            "terraform {{\n  backend \"http\" {{\n    address   = \"http://{}/{path}\"\n    retry_max = 0\n  }}\n}}\n",
            self.address
        )
    }

    pub fn state(&self) -> Value {
        serde_json::from_slice(self.held().state.as_ref().expect("a state")).expect("JSON")
    }

    /// Changes the state behind everybody's back.
    pub fn alter(&self, change: impl FnOnce(&mut Value)) {
        let mut state = self.state();
        change(&mut state);
        self.held().state = Some(serde_json::to_vec(&state).expect("JSON"));
    }

    /// The ids of all objects in the state.
    pub fn ids(&self) -> Vec<String> {
        let state = self.state();
        let of = |object: &Value| object["instances"].as_array().cloned().unwrap_or_default();
        let objects = state["resources"].as_array().expect("objects");
        let ids = objects.iter().flat_map(of);
        ids.map(|instance| instance["attributes"]["id"].as_str().expect("an id").to_owned()).collect()
    }
}

fn answer(mut stream: TcpStream, held: &Mutex<Held>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first)?;
    for line in reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty()) {
        if let Some(number) = line.to_lowercase().strip_prefix("content-length: ") {
            length = number.parse().expect("a length");
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
    let (status, body) = if first.starts_with("POST") {
        held.state = Some(body);
        held.failing += std::mem::take(&mut held.failing_after_write);
        ("200 OK", Vec::new())
    } else if held.failing > 0 {
        held.failing -= 1;
        ("500 Internal Server Error", Vec::new())
    } else {
        held.state.clone().map_or(("404 Not Found", Vec::new()), |state| ("200 OK", state))
    };
    drop(held);
    write!(stream, "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len())?;
    stream.write_all(&body)
}
