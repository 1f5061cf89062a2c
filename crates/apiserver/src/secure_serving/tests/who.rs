//! Who gets in, as whom, and what is written down about it.

use std::{fs, path::Path};

use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::secure_serving::{AuditLog, Rotation, ServingError};

const UNAUTHORIZED: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}"#;

pub fn with(mut request: Request<Full<Bytes>>, headers: &[(&'static str, &str)]) -> Request<Full<Bytes>> {
    for (name, value) in headers {
        request.headers_mut().append(*name, value.parse().unwrap());
    }
    request
}

#[tokio::test]
async fn strangers_see_only_whether_the_server_is_well() {
    let harness = Harness::new().await;
    let wrong_token = [("authorization", "Bearer AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")];
    for (request, code) in [
        (get("/livez"), 200),
        (get("/version"), 200),
        (get("/whoami"), 401),
        (get("/livez/../whoami"), 401),
        (get("/api/v1/things"), 401),
        (get("/metrics"), 401),
        (Request::post("/version").header("host", "localhost").body(Full::default()).unwrap(), 401),
        (with(get("/whoami"), &wrong_token), 401),
        // Wrong credentials are refused even where none are needed, as in Kubernetes.
        (with(get("/livez"), &wrong_token), 401),
        (with(get("/whoami"), &[("impersonate-user", "kubernetes-admin")]), 401),
        (with(get("/livez"), &[("impersonate-user", "kubernetes-admin")]), 403),
        (with(get("/whoami"), &[("authorization", "Basic YTpi")]), 401),
    ] {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let (found, body) = harness.ask(request).await;
        assert_eq!(found, code, "{method} {uri}");
        assert!(code != 401 || body == UNAUTHORIZED, "{body}");
    }
}

#[tokio::test]
async fn the_token_is_the_administrator() {
    let harness = Harness::new().await;
    let (code, body) = harness.ask(harness.get("/whoami")).await;
    assert_eq!(code, 200);
    let admin = json!({"name": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"], "uid": null});
    assert_eq!(parsed(&body), admin);

    let headers = [("impersonate-user", "ann"), ("impersonate-group", "devs"), ("impersonate-uid", "7")];
    let (_, body) = harness.ask(with(harness.get("/whoami"), &headers)).await;
    assert_eq!(parsed(&body), json!({"name": "ann", "groups": ["devs", "system:authenticated"], "uid": "7"}));
    let (_, seen) = harness.ask(with(harness.get("/headers"), &headers)).await;
    assert!(!seen.contains("authorization") && !seen.contains("impersonate"), "{seen}");
}

/// A client certificate signed by the CA in the folder.
pub(super) fn sign(data: &Path, name: &str, group: &str) -> (String, String) {
    let ca = fs::read_to_string(data.join("pki/ca.pem")).unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "capt");
    let key = PrivateKeyDer::from_pem_slice(ca.as_bytes()).unwrap();
    let issuer = Issuer::new(params, KeyPair::try_from(&key).unwrap());
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, group);
    params.distinguished_name.push(DnType::CommonName, name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    (params.signed_by(&key, &issuer).unwrap().pem(), key.serialize_pem())
}

#[tokio::test]
async fn a_certificate_of_our_ca_names_its_user() {
    let folder = tempfile::tempdir().unwrap();
    let identity = Identity::in_folder(folder.path(), &[], SystemTime::now()).unwrap();
    let harness = Harness::of(identity, Settings::default()).await;
    let (certificate, key) = sign(folder.path(), "ann", "devs");
    let connect = connect(
        harness.serving.address(),
        harness.identity.ca_certificate(),
        Some((&certificate, &key)),
        "http/1.1",
    );
    let mut client = Http1::on(connect.await.unwrap()).await;
    let (_, body) = client.ask(get("/whoami")).await.unwrap();
    assert_eq!(
        parsed(&body),
        json!({"name": "ann", "groups": ["devs", "system:authenticated"], "uid": null})
    );
    // The certificate counts first, so a wrong token changes nothing.
    let (_, body) = client.ask(with(get("/whoami"), &[("authorization", "Bearer wrong")])).await.unwrap();
    assert_eq!(parsed(&body)["name"], "ann");
    let (code, body) = client.ask(with(get("/whoami"), &[("impersonate-user", "bob")])).await.unwrap();
    assert_eq!((code, &parsed(&body)["details"]), (403, &json!({"name": "bob", "kind": "users"})));

    // The server's own certificate is of this CA too, but not for clients.
    let server = fs::read_to_string(folder.path().join("pki/server.pem")).unwrap();
    assert!(is_refused(&harness, &server, &server).await);
}

/// In TLS 1.3 the client is done before the server has looked: the refusal comes with the first read.
async fn is_refused(harness: &Harness, certificate: &str, key: &str) -> bool {
    let client = Some((certificate, key));
    let mut stream =
        connect(harness.serving.address(), harness.identity.ca_certificate(), client, "http/1.1")
            .await
            .unwrap();
    // The server may be gone already.
    let _ = stream.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").await;
    soon(stream.read_u8()).await.is_err_and(|error| error.to_string().contains("received fatal alert"))
}

#[tokio::test]
async fn foreign_certificates_end_at_the_handshake() {
    let harness = Harness::new().await;
    let foreign = Identity::in_memory(&[], SystemTime::now()).unwrap();

    assert!(
        connect(harness.serving.address(), foreign.ca_certificate(), None, "h2").await.is_err(),
        "a foreign server"
    );

    assert!(is_refused(&harness, foreign.admin_certificate(), foreign.admin_key()).await, "a foreign client");
}

#[tokio::test]
async fn only_loopback_unless_allowed() {
    let identity = Identity::in_memory(&[], SystemTime::now()).unwrap();
    for (listen, is_remote) in
        [("0.0.0.0:0", true), ("[::]:0", true), ("192.0.2.1:0", true), ("127.0.0.1:0", false)]
    {
        let settings = Settings { listen: listen.parse().unwrap(), ..Settings::default() };
        let opened = SecureServer::open(Arc::new(Dummy::default()), &identity, settings).await;
        assert_eq!(matches!(opened, Err(ServingError::Remote(_))), is_remote, "{listen}");
    }
    let settings =
        Settings { listen: "0.0.0.0:0".parse().unwrap(), allow_remote: true, ..Settings::default() };
    let serving = SecureServer::open(Arc::new(Dummy::default()), &identity, settings).await.unwrap();
    assert_eq!(serving.url(), format!("https://127.0.0.1:{}", serving.address().port()));
}

#[tokio::test]
async fn every_request_is_written_down_without_its_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let audit = AuditLog::open(&path, Rotation::default()).unwrap();
    let harness = Harness::with(Settings { audit: Some(audit), ..Settings::default() }).await;
    let secret = harness.identity.token().to_owned();
    harness.ask(get("/whoami")).await;
    harness
        .ask(with(harness.get("/livez?token=hidden"), &[("impersonate-user", "ann"), ("user-agent", "test")]))
        .await;
    let mut request = harness.get("/api/v1/things?watch=true");
    *request.body_mut() = Full::from("hidden");
    let mut client = Http2::on(harness.connect("h2").await).await;
    let watch = client.0.send_request(request).await.unwrap();
    harness.serving.close().await;
    read(watch).await.unwrap();

    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains("hidden") && !text.contains(&secret), "{text}");
    let lines: Vec<_> = text.lines().map(parsed).collect();
    let field =
        |name: &str| lines.iter().map(|line| line[name].to_string().replace('"', "")).collect::<Vec<_>>();
    assert_eq!(field("user"), ["system:anonymous", "ann", "kubernetes-admin", "kubernetes-admin"]);
    assert_eq!(field("impersonator"), ["null", "kubernetes-admin", "null", "null"]);
    assert_eq!(field("code"), ["401", "200", "200", "200"]);
    assert_eq!(field("verb"), ["get", "get", "watch", "watch"]);
    assert_eq!(field("path"), ["/whoami", "/livez", "/api/v1/things", "/api/v1/things"]);
    assert_eq!(field("stage")[2..], ["ResponseStarted", "ResponseComplete"]);
    assert_eq!(field("bytes")[1], "2");
    assert_eq!(field("userAgent")[1], "test");
}
