//! The one name of the place where a backend keeps a state.
//!
//! Backends make the name of a file, row or Secret of several settings and the Terraform workspace, and fill in what is not
//! given. So one place has many spellings: `prefix = "a"` and `"a/"`, the key `env:/w/k` and the key `k` in workspace `w`.

use std::collections::BTreeMap;

use serde_json::Value;

/// Identifies the object that holds the state: a server, a bucket and so on, and at the end the name there. `None` for an unknown
/// kind of backend.
pub(super) fn object(
    kind: &str,
    settings: &BTreeMap<&str, Value>,
    workspace: Option<&str>,
) -> Option<Vec<String>> {
    let or = |name: &str, default: &str| text(settings.get(name)).unwrap_or_else(|| default.to_owned());
    let get = |name: &str| or(name, "");
    let workspace = workspace.filter(|name| *name != "default");
    let named = workspace.unwrap_or("default");
    Some(match kind {
        "local" => {
            let file = "terraform.tfstate";
            let folder = or("workspace_dir", "terraform.tfstate.d");
            vec![workspace.map_or_else(|| join(&[&or("path", file)]), |name| join(&[&folder, name, file]))]
        }
        "s3" => {
            let s3 = settings.get("endpoints").and_then(s3_of).or_else(|| text(settings.get("endpoint")));
            let endpoint = s3.as_deref().map(server).unwrap_or_default();
            let prefix = or("workspace_key_prefix", "env:");
            vec![endpoint, get("bucket"), below(&prefix, workspace, &get("key"))]
        }
        "oci" => {
            let prefix = or("workspace_key_prefix", "env:");
            let key = or("key", "terraform.tfstate");
            vec![get("namespace"), get("bucket"), below(&prefix, workspace, &key)]
        }
        "gcs" => {
            vec![get("bucket"), join(&[get("prefix").trim_start_matches('/'), &format!("{named}.tfstate")])]
        }
        "azurerm" => {
            let suffix = workspace.map(|name| format!("env:{name}")).unwrap_or_default();
            let account = get("storage_account_name").to_lowercase();
            vec![account, get("container_name"), get("key") + &suffix]
        }
        "kubernetes" => {
            let secret = format!("tfstate-{named}-{}", get("secret_suffix"));
            let configs = get("config_path") + &get("config_paths");
            vec![server(&get("host")), configs, get("config_context"), or("namespace", "default"), secret]
        }
        "http" => vec![server(&get("address"))],
        "consul" => {
            let suffix = workspace.map(|name| format!("-env:{name}")).unwrap_or_default();
            let address = get("address");
            let address = address.split_once("://").map_or(&*address, |(_, rest)| rest);
            let address = if address.is_empty() { "127.0.0.1:8500" } else { address };
            vec![address.trim_end_matches('/').to_lowercase(), get("datacenter"), get("path") + &suffix]
        }
        "pg" => vec![
            database(&get("conn_str")),
            or("schema_name", "terraform_remote_state"),
            or("table_name", "states"),
            named.to_owned(),
        ],
        "cos" => {
            let key = or("key", "terraform.tfstate");
            vec![get("region"), get("bucket"), join(&[&get("prefix"), workspace.unwrap_or(""), &key])]
        }
        "oss" => {
            let key = or("key", "terraform.tfstate");
            let prefix = or("prefix", "env:");
            vec![get("region"), get("bucket"), join(&[&prefix, workspace.unwrap_or(""), &key])]
        }
        "remote" => {
            let (name, prefix) = workspaces(settings.get("workspaces"));
            let name = name.unwrap_or_else(|| prefix + named);
            vec![or("hostname", "app.terraform.io").to_lowercase(), get("organization"), name]
        }
        _ => return None,
    })
}

fn text(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) => Some(text.clone()),
        Value::Null => None,
        other => Some(other.to_string()),
    }
}

/// `endpoints = { s3 = … }`, which Terraform writes down as a list of one as well.
fn s3_of(endpoints: &Value) -> Option<String> {
    text(endpoints.pointer("/s3").or_else(|| endpoints.pointer("/0/s3")))
}

/// The name and the prefix of a `workspaces` block.
fn workspaces(block: Option<&Value>) -> (Option<String>, String) {
    let part = |name: &str| {
        let block = block?;
        let found = block.get(name).or_else(|| block.get(0)?.get(name));
        text(found).filter(|text| !text.is_empty())
    };
    (part("name"), part("prefix").unwrap_or_default())
}

/// The key of a state: a workspace has its own below a prefix.
fn below(prefix: &str, workspace: Option<&str>, key: &str) -> String {
    workspace.map_or_else(|| key.to_owned(), |name| join(&[prefix, name, key]))
}

/// Joins parts of a path and takes out what means nothing in it, as Go's `path.Join`.
fn join(parts: &[&str]) -> String {
    let joined = parts.iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join("/");
    let rooted = joined.starts_with('/');
    let mut kept: Vec<&str> = Vec::new();
    for part in joined.split('/') {
        match part {
            "" | "." => {}
            ".." if kept.last().is_some_and(|last| *last != "..") => drop(kept.pop()),
            ".." if rooted => {}
            part => kept.push(part),
        }
    }
    let root = if rooted { "/" } else { "" };
    format!("{root}{}", kept.join("/"))
}

/// An address without what means nothing: case of scheme and host, the scheme's own port, a slash at the end.
fn server(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else {
        return address.trim_end_matches('/').to_owned();
    };
    let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let (scheme, host) = (scheme.to_lowercase(), host.to_lowercase());
    let port = if scheme == "https" { ":443" } else { ":80" };
    let host = host.strip_suffix(port).unwrap_or(&host);
    format!("{scheme}://{host}{}", path.trim_end_matches('/'))
}

/// Host, port and database of a connection to PostgreSQL, of a URL or of `key=value` pairs; who connects does not matter.
fn database(connection: &str) -> String {
    let url = ["postgres://", "postgresql://"].iter().find_map(|scheme| connection.strip_prefix(scheme));
    let pair = |text: &str, wanted: &str, between: fn(char) -> bool| {
        let mut pairs = text.split(between).filter_map(|pair| pair.split_once('='));
        let found = pairs.rfind(|(name, _)| name.trim() == wanted);
        found.map(|(_, value)| value.trim().trim_matches('\'').to_owned())
    };
    let (host, port, name, user) = if let Some(rest) = url {
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (server, name) = rest.split_once('/').unwrap_or((rest, ""));
        let (who, server) = server.rsplit_once('@').unwrap_or(("", server));
        let (host, port) = match server.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port),
            _ => (server, ""),
        };
        let of_query =
            |wanted: &str, given: &str| pair(query, wanted, |c| c == '&').unwrap_or_else(|| given.to_owned());
        let user = who.split(':').next().unwrap_or_default();
        (of_query("host", host), of_query("port", port), of_query("dbname", name), of_query("user", user))
    } else {
        let get = |wanted: &str| pair(connection, wanted, char::is_whitespace).unwrap_or_default();
        (get("host"), get("port"), get("dbname"), get("user"))
    };
    let or = |value: String, default: &str| if value.is_empty() { default.to_owned() } else { value };
    format!("{}:{}/{}", or(host, "localhost").to_lowercase(), or(port, "5432"), or(name, &user))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn named(kind: &str, settings: &Value, workspace: Option<&str>) -> Vec<String> {
        let settings = settings.as_object().expect("settings");
        let settings = settings.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        object(kind, &settings, workspace).expect("a known kind")
    }

    type Spellings = (&'static str, Vec<(Value, Option<&'static str>)>);

    /// Each row is spellings of one place; no two rows are of one.
    fn check(rows: &[Spellings]) {
        let mut seen = Vec::new();
        for (kind, spellings) in rows {
            let (first, workspace) = &spellings[0];
            let name = (kind, named(kind, first, *workspace));
            for (settings, workspace) in spellings {
                assert_eq!(named(kind, settings, *workspace), name.1, "{kind} {settings} {workspace:?}");
            }
            assert!(!seen.contains(&name), "{name:?} is of two rows");
            seen.push(name);
        }
    }

    #[test]
    fn one_place_among_files_has_one_name() {
        check(&[
            (
                "s3",
                vec![
                    (json!({"bucket": "b", "key": "k"}), None),
                    (json!({"bucket": "b", "key": "k", "workspace_key_prefix": "x"}), None),
                ],
            ),
            (
                "s3",
                vec![
                    (json!({"bucket": "b", "key": "k"}), Some("w")),
                    (json!({"bucket": "b", "key": "k", "workspace_key_prefix": "env:"}), Some("w")),
                    (json!({"bucket": "b", "key": "env:/w/k"}), None),
                    (json!({"bucket": "b", "key": "x/../k", "workspace_key_prefix": "env:/"}), Some("w")),
                ],
            ),
            (
                "s3",
                vec![
                    (json!({"bucket": "b", "key": "k", "endpoint": "https://S3.example.com:443/"}), None),
                    (json!({"bucket": "b", "key": "k", "endpoints": {"s3": "https://s3.example.com"}}), None),
                    (
                        json!({"bucket": "b", "key": "k", "endpoints": [{"s3": "https://s3.example.com"}]}),
                        None,
                    ),
                ],
            ),
            (
                "gcs",
                vec![
                    (json!({"bucket": "b", "prefix": "a"}), None),
                    (json!({"bucket": "b", "prefix": "a/"}), None),
                    (json!({"bucket": "b", "prefix": "/a"}), None),
                    (json!({"bucket": "b", "prefix": "x/../a"}), Some("default")),
                ],
            ),
            ("gcs", vec![(json!({"bucket": "b"}), None)]),
            (
                "azurerm",
                vec![
                    (json!({"storage_account_name": "s", "container_name": "c", "key": "k"}), Some("w")),
                    (json!({"storage_account_name": "S", "container_name": "c", "key": "kenv:w"}), None),
                ],
            ),
            (
                "cos",
                vec![
                    (json!({"bucket": "b", "prefix": "a"}), None),
                    (json!({"bucket": "b", "prefix": "a/", "key": "terraform.tfstate"}), None),
                    (json!({"bucket": "b", "key": "a/terraform.tfstate"}), None),
                    (json!({"bucket": "b"}), Some("a")),
                ],
            ),
            (
                "oss",
                vec![
                    (json!({"bucket": "b", "key": "k"}), None),
                    (json!({"bucket": "b", "key": "k", "prefix": "env:"}), None),
                ],
            ),
            (
                "oci",
                vec![
                    (json!({"bucket": "b", "namespace": "n"}), None),
                    (json!({"bucket": "b", "namespace": "n", "key": "terraform.tfstate"}), None),
                ],
            ),
            ("local", vec![(json!({"path": "/a/b"}), None), (json!({"path": "/a/./x/../b"}), None)]),
            (
                "local",
                vec![
                    (json!({"workspace_dir": "/a"}), Some("w")),
                    (json!({"path": "/a/w/terraform.tfstate"}), None),
                ],
            ),
        ]);
    }

    #[test]
    fn one_place_on_a_server_has_one_name() {
        check(&[
            (
                "kubernetes",
                vec![
                    (json!({"secret_suffix": "a"}), None),
                    (json!({"secret_suffix": "a", "namespace": "default"}), None),
                ],
            ),
            (
                "kubernetes",
                vec![
                    (json!({"secret_suffix": "c"}), Some("a-b")),
                    (json!({"secret_suffix": "b-c"}), Some("a")),
                ],
            ),
            (
                "http",
                vec![(json!({"address": "http://x/a"}), None), (json!({"address": "HTTP://X:80/a"}), None)],
            ),
            (
                "consul",
                vec![
                    (json!({"path": "p"}), Some("w")),
                    (json!({"path": "p-env:w", "address": "http://127.0.0.1:8500"}), None),
                ],
            ),
            (
                "pg",
                vec![
                    (json!({"conn_str": "postgres://me:secret@db/states"}), None),
                    (json!({"conn_str": "postgresql://you@DB:5432/states?sslmode=disable"}), None),
                    (json!({"conn_str": "postgres:///states?host=db"}), Some("default")),
                    (
                        json!({"conn_str": "host=db dbname='states'", "schema_name": "terraform_remote_state"}),
                        None,
                    ),
                ],
            ),
            ("pg", vec![(json!({"conn_str": "postgres://me@db/others"}), None)]),
            ("pg", vec![(json!({"conn_str": "postgres://me@db/states", "table_name": "t"}), None)]),
            (
                "remote",
                vec![
                    (json!({"organization": "o", "workspaces": [{"name": "p-w"}]}), None),
                    (
                        json!({"organization": "o", "workspaces": [{"prefix": "p-"}], "hostname": "App.terraform.io"}),
                        Some("w"),
                    ),
                ],
            ),
        ]);
        assert_eq!(object("artifactory", &BTreeMap::new(), None), None);
    }
}
