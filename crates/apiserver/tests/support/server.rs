//! A server that only describes itself, for `kubectl`. Writes are kept for the test to look at.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use capt_apiserver::{discovery, openapi, resource::Resource};
use serde_json::{Value, json};

pub struct Server {
    pub url: String,
    pub written: Arc<Mutex<Vec<(String, String, String)>>>,
}

struct Pages {
    resources: Vec<Arc<Resource>>,
    index: Value,
    documents: HashMap<String, Value>,
    objects: HashMap<String, Value>,
    written: Arc<Mutex<Vec<(String, String, String)>>>,
}

impl Server {
    /// Serves descriptions of `resources`, and `objects` by path.
    pub fn start(resources: Vec<Arc<Resource>>, objects: HashMap<String, Value>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (index, documents) = openapi::all(&resources);
        let documents = documents.into_iter().map(|(path, _, document)| (path, document)).collect();
        let written = Arc::new(Mutex::new(Vec::new()));
        let pages = Arc::new(Pages { resources, index, documents, objects, written: Arc::clone(&written) });
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let pages = Arc::clone(&pages);
                thread::spawn(move || while pages.answer(&stream).is_some() {});
            }
        });
        Self { url, written }
    }
}

impl Pages {
    fn answer(&self, stream: &TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let mut words = line.split_whitespace();
        let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
        let (mut accept, mut length) = (String::new(), 0);
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).ok()?;
            let Some((name, value)) = header.trim_end().split_once(": ") else { break };
            match name.to_lowercase().as_str() {
                "accept" => value.clone_into(&mut accept),
                "content-length" => length = value.parse().ok()?,
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let path = target.split('?').next()?;
        let (code, kind, page) = if method == "GET" {
            self.page(path, &accept)
        } else {
            let body = String::from_utf8(body).ok()?;
            self.written.lock().ok()?.push((method, target.clone(), body.clone()));
            let object = self.objects.get(path).cloned();
            (200, "application/json", object.or_else(|| serde_json::from_str(&body).ok()).unwrap_or_default())
        };
        let page = page.to_string();
        let head =
            format!("HTTP/1.1 {code} X\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n", page.len());
        let mut stream = stream;
        stream.write_all(head.as_bytes()).ok()?;
        stream.write_all(page.as_bytes()).ok()
    }

    fn page(&self, path: &str, accept: &str) -> (u16, &'static str, Value) {
        let aggregated = accept.contains("v=v2;as=APIGroupDiscoveryList");
        let found = match path.trim_matches('/') {
            "api" if aggregated => {
                return (
                    200,
                    discovery::AGGREGATED_CONTENT_TYPE,
                    discovery::aggregated_core(&self.resources),
                );
            }
            "apis" if aggregated => {
                return (
                    200,
                    discovery::AGGREGATED_CONTENT_TYPE,
                    discovery::aggregated_groups(&self.resources),
                );
            }
            "api" => Some(discovery::api_versions("127.0.0.1")),
            "apis" => Some(discovery::api_groups(&self.resources)),
            "version" => Some(json!({"major": "1", "minor": "36", "gitVersion": "v1.36.0"})),
            // kubectl asks for protobuf first, and for JSON where that is refused.
            "openapi/v2" if accept.contains("protobuf") && !accept.contains("json") => {
                return (
                    406,
                    "application/json",
                    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 406, "reason": "NotAcceptable"}),
                );
            }
            "openapi/v2" => Some(openapi::document_v2(&self.resources)),
            "openapi/v3" => Some(self.index.clone()),
            path => self.deeper(path),
        };
        match found {
            Some(page) => (200, "application/json", page),
            None => (
                404,
                "application/json",
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound", "message": "not found"}),
            ),
        }
    }

    fn deeper(&self, path: &str) -> Option<Value> {
        if let Some(document) = path.strip_prefix("openapi/v3/") {
            return self.documents.get(document).cloned();
        }
        match path.split('/').collect::<Vec<_>>()[..] {
            ["api", version] => discovery::api_resources("", version, &self.resources),
            ["apis", group] => discovery::api_group(group, &self.resources),
            ["apis", group, version] => discovery::api_resources(group, version, &self.resources),
            _ => self.objects.get(&format!("/{path}")).cloned(),
        }
    }
}
