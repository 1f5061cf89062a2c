//! What is kept between starts, and for how long.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use super::*;
use crate::authn::IdentityError;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const FILES: [&str; 4] = ["ca.pem", "server.pem", "admin.pem", "token"];

fn start(data: &Path, after: Duration) -> Result<Identity, IdentityError> {
    Identity::in_folder(data, &[], SystemTime::now() + after)
}

fn contents(data: &Path) -> [String; 4] {
    FILES.map(|file| fs::read_to_string(data.join("pki").join(file)).unwrap())
}

/// Which files differ.
fn changed(before: &[String; 4], after: &[String; 4]) -> Vec<&'static str> {
    FILES
        .into_iter()
        .zip(before.iter().zip(after))
        .filter(|(_, (a, b))| a != b)
        .map(|(file, _)| file)
        .collect()
}

#[test]
fn a_restart_changes_nothing() {
    let data = tempfile::tempdir().unwrap();
    let first = start(data.path(), Duration::ZERO).unwrap();
    let before = contents(data.path());
    let second = start(data.path(), 100 * DAY).unwrap();
    assert!(changed(&before, &contents(data.path())).is_empty());
    assert_eq!((first.token(), first.admin_key()), (second.token(), second.admin_key()));
    assert_eq!(first.token().len(), 43);

    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let pki = data.path().join("pki");
    assert_eq!(mode(&pki), 0o700);
    assert_eq!(fs::read_dir(&pki).unwrap().count(), FILES.len());
    assert!(FILES.iter().all(|file| mode(&pki.join(file)) == 0o600));
}

/// A machine whose clock has no battery starts where time began.
#[test]
fn the_first_hour_of_1970_is_a_time_like_any_other() {
    let data = tempfile::tempdir().unwrap();
    for after in [30, 59 * 60, 2 * 3600, 90 * 86_400, 56 * 365 * 86_400] {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(after);
        Identity::in_folder(data.path(), &[], now).unwrap_or_else(|error| panic!("{after} s: {error}"));
    }
}

#[test]
fn what_wears_out_is_renewed() {
    for (after, expected) in [
        (240 * DAY, &[][..]),
        (250 * DAY, &["server.pem", "admin.pem"]),
        (400 * DAY, &["server.pem", "admin.pem"]),
        (8 * 365 * DAY, &["ca.pem", "server.pem", "admin.pem"]),
        (11 * 365 * DAY, &["ca.pem", "server.pem", "admin.pem"]),
    ] {
        let data = tempfile::tempdir().unwrap();
        start(data.path(), Duration::ZERO).unwrap();
        let before = contents(data.path());
        start(data.path(), after).unwrap();
        let renewed = contents(data.path());
        assert_eq!(changed(&before, &renewed), expected, "{after:?}");
        let key = |ca: &str| ca[ca.find("PRIVATE KEY").unwrap()..].to_owned();
        assert_eq!(key(&before[0]), key(&renewed[0]), "the CA's key stays");
        start(data.path(), after).unwrap();
        assert!(changed(&renewed, &contents(data.path())).is_empty(), "and once is enough");
    }
}

#[test]
fn a_start_that_was_cut_off_is_finished() {
    for (missing, expected) in [
        (&FILES[3..], &["token"][..]),
        (&FILES[2..], &["admin.pem", "token"]),
        // As after a crash between the renewal of the CA and that of what it signs.
        (&FILES[..1], &["ca.pem", "server.pem", "admin.pem"]),
    ] {
        let data = tempfile::tempdir().unwrap();
        start(data.path(), Duration::ZERO).unwrap();
        let before = contents(data.path());
        for file in missing {
            fs::remove_file(data.path().join("pki").join(file)).unwrap();
        }
        start(data.path(), Duration::ZERO).unwrap();
        assert_eq!(changed(&before, &contents(data.path())), expected);
    }
}

#[test]
fn a_new_name_needs_a_new_certificate_of_the_server_alone() {
    let data = tempfile::tempdir().unwrap();
    start(data.path(), Duration::ZERO).unwrap();
    let before = contents(data.path());
    let names = ["mgmt.example.org".to_owned(), "192.0.2.7".to_owned()];
    let now = SystemTime::now();
    Identity::in_folder(data.path(), &names, now).unwrap();
    let with_names = contents(data.path());
    assert_eq!(changed(&before, &with_names), ["server.pem"]);
    Identity::in_folder(data.path(), &names[..1], now).unwrap();
    assert!(changed(&with_names, &contents(data.path())).is_empty(), "one name less needs none");
    for name in ["", "no name", "*.example.org"] {
        let refused = Identity::in_memory(&[name.to_owned()], now);
        assert!(matches!(refused, Err(IdentityError::Name(_))), "{name:?}");
    }
}

#[test]
fn damage_is_reported_and_left_alone() {
    let data = tempfile::tempdir().unwrap();
    start(data.path(), Duration::ZERO).unwrap();
    let whole = contents(data.path());
    let other = tempfile::tempdir().unwrap();
    start(other.path(), Duration::ZERO).unwrap();
    let foreign = contents(other.path());
    let key_at = |text: &str| text.find("-----BEGIN PRIVATE").unwrap_or(0);

    for (index, file) in FILES.into_iter().enumerate() {
        let text = &whole[index];
        let mut flipped = text.clone().into_bytes();
        flipped[120.min(text.len() - 1)] ^= 1;
        let mut damages = vec![Vec::new(), text.as_bytes()[..text.len() / 2].to_vec(), vec![0xff; 100]];
        if file != "token" {
            // Another's key; a bit flipped in what is signed.
            damages.push(
                [&text[..key_at(text)], &foreign[index][key_at(&foreign[index])..]].concat().into_bytes(),
            );
            damages.push(flipped);
        }
        let path = data.path().join("pki").join(file);
        for damage in damages {
            fs::write(&path, &damage).unwrap();
            let reported = start(data.path(), Duration::ZERO).err().map(|error| error.to_string());
            let expected = format!("{} is damaged", path.display());
            assert!(
                reported.as_ref().is_some_and(|error| error.starts_with(&expected)),
                "{reported:?}: {}",
                String::from_utf8_lossy(&damage)
            );
            assert_eq!(fs::read(&path).unwrap(), damage);
        }
        fs::write(&path, text).unwrap();
    }
    start(data.path(), Duration::ZERO).unwrap();

    fs::set_permissions(data.path().join("pki/token"), fs::Permissions::from_mode(0o640)).unwrap();
    assert!(matches!(start(data.path(), Duration::ZERO), Err(IdentityError::Read(..))));
}

#[test]
fn no_flipped_bit_makes_a_file_be_replaced() {
    let data = tempfile::tempdir().unwrap();
    start(data.path(), Duration::ZERO).unwrap();
    for (file, whole) in FILES.into_iter().zip(contents(data.path())) {
        let path = data.path().join("pki").join(file);
        for at in (0..whole.len()).step_by(3) {
            let mut flipped = whole.clone().into_bytes();
            flipped[at] ^= 1;
            fs::write(&path, &flipped).unwrap();
            // A flip that changes no meaning, as of a line's end, may pass.
            let _ = start(data.path(), Duration::ZERO);
            assert!(fs::read(&path).unwrap() == flipped, "{file}, byte {at}");
        }
        fs::write(&path, whole).unwrap();
    }
}

#[tokio::test]
async fn a_kept_client_survives_the_renewal_of_the_ca() {
    let data = tempfile::tempdir().unwrap();
    let past = SystemTime::now() - 7 * 365 * DAY;
    let old = Identity::in_folder(data.path(), &[], past).unwrap();
    let harness = Harness::of(start(data.path(), Duration::ZERO).unwrap(), Settings::default()).await;
    assert_ne!(old.ca_certificate(), harness.identity.ca_certificate());
    let stream = connect(harness.serving.address(), old.ca_certificate(), None, "http/1.1").await.unwrap();
    let mut request = get("/whoami");
    request.headers_mut().insert("authorization", format!("Bearer {}", old.token()).parse().unwrap());
    assert_eq!(Http1::on(stream).await.ask(request).await.unwrap().0, 200);
}

#[tokio::test]
async fn newer_certificates_are_shown_without_a_restart() {
    let harness = Harness::new().await;
    let mut open = Http1::on(harness.connect("http/1.1").await).await;
    let newer = Identity::in_memory(&[], SystemTime::now()).unwrap();
    let trusts = async |identity: &Identity| {
        soon(connect(harness.serving.address(), identity.ca_certificate(), None, "http/1.1")).await.is_ok()
    };
    assert!(trusts(&harness.identity).await && !trusts(&newer).await);
    harness.serving.renew(&newer).unwrap();
    assert!(!trusts(&harness.identity).await && trusts(&newer).await);
    assert_eq!(soon(open.ask(harness.get("/livez"))).await.unwrap().0, 200);
}
