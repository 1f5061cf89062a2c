#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::json;

use super::super::pem::tests::{CA as PEM, KEY as KEY_PEM};
use super::*;

/// Outputs, what was asked for, the host, what comes of it.
type Row<'a, T> = (&'a [(&'a str, &'a str)], Option<Auth>, &'a str, T);

fn material(outputs: &[(&str, &str)]) -> Material {
    let open = outputs.iter().map(|(name, text)| ((*name).to_owned(), json!(text))).collect();
    Material::new(&open, None)
}

fn endpoint(host: &str) -> Endpoint {
    Endpoint { host: host.into(), port: 443 }
}

fn chosen(outputs: &[(&str, &str)], asked: Option<Auth>, host: &str) -> Result<Recipe, Problem> {
    let at = endpoint(host);
    let known = KnownCluster { cluster: "demo", endpoint: (!host.is_empty()).then_some(&at), region: None };
    choose(&material(outputs), asked, &known)
}

fn login_of(recipe: Recipe) -> Login {
    match recipe {
        Recipe::Made { login, .. } => login,
        Recipe::Given { .. } => panic!("it is made"),
    }
}

fn whole(token: &str) -> String {
    kubeconfig::text("x", "https://whole:6443", PEM, &kubeconfig::User::Token(token.into()))
}

#[test]
fn a_whole_kubeconfig_comes_first() {
    let text = whole("t");
    let outputs = [("kubeconfig", text.as_str()), ("cluster_token", "other")];
    let recipe = chosen(&outputs, None, "").unwrap();
    assert_eq!(recipe, Recipe::Given { text: text.clone(), ca: Some(PEM.into()) });
    // One with a token of EKS is a starting point only.
    let text = whole("k8s-aws-v1.abc");
    let recipe = chosen(&[("kubeconfig", &text)], None, "").unwrap();
    let login = Login::Eks(EksCluster { name: "demo".into(), region: None });
    assert_eq!(recipe, Recipe::Made { server: "https://whole:6443".into(), ca: PEM.into(), login });
    // Whoever asks for the AWS CLI gets it.
    let recipe = chosen(&[("kubeconfig", &whole("t")), (CA[0], PEM)], Some(Auth::EksExec), "h").unwrap();
    let user = kubeconfig::User::AwsCli { cluster: "demo".into(), region: None };
    assert_eq!(login_of(recipe), Login::User(user));
}

#[test]
fn parts_come_second_and_eks_last() {
    use kubeconfig::User::{Certificate, Token};
    let eks_host = "A.gr7.eu-west-1.eks.amazonaws.com";
    let eks = |name: &str, region: Option<&str>| {
        Login::Eks(EksCluster { name: name.into(), region: region.map(str::to_owned) })
    };
    let pair = Certificate { certificate: PEM.into(), key: KEY_PEM.into() };
    let rows: [Row<'_, Login>; 7] = [
        (&[("client_certificate", PEM), ("client_key", KEY_PEM)], None, "h", Login::User(pair)),
        (&[("cluster_token", " t \n")], Some(Auth::Eks), "h", Login::User(Token("t".into()))),
        (&[("token", "k8s-aws-v1.abc")], None, "h", eks("demo", None)),
        (&[], Some(Auth::Eks), "h", eks("demo", None)),
        (
            &[("cluster_name", "named"), ("region", "us-east-2")],
            Some(Auth::Eks),
            "h",
            eks("named", Some("us-east-2")),
        ),
        (&[], None, eks_host, eks("demo", Some("eu-west-1"))),
        (&[("token", ""), ("client_key", "")], None, eks_host, eks("demo", Some("eu-west-1"))),
    ];
    for (outputs, asked, host, login) in rows {
        let outputs: Vec<_> = outputs.iter().copied().chain([(CA[0], PEM)]).collect();
        let recipe = chosen(&outputs, asked, host).unwrap();
        assert_eq!(recipe, Recipe::Made { server: format!("https://{host}:443"), ca: PEM.into(), login });
    }
}

#[test]
fn what_is_wrong_is_named() {
    let eks = Some(Auth::Eks);
    let rows: [Row<'_, &str>; 10] = [
        (
            &[("kubeconfig", "hunter2")],
            None,
            "h",
            "output kubeconfig is not a kubeconfig: it is not a Config of v1",
        ),
        (&[(CA[0], "%")], None, "h", "output cluster_certificate_authority_data: it is neither PEM"),
        (&[(CA[1], "aGk=")], eks, "h", "output cluster_ca_certificate: there is no PEM block"),
        (&[(CA[0], PEM)], eks, "", "no output cluster_endpoint"),
        (&[("cluster_token", "t")], None, "h", "no output cluster_certificate_authority_data"),
        (&[(CA[0], PEM)], None, "h", "no output kubeconfig, nor client_certificate"),
        (
            &[(CA[0], PEM), ("client_key", KEY_PEM)],
            None,
            "h",
            "no output client_certificate, the certificate of client_key",
        ),
        (
            &[(CA[0], PEM), ("client_certificate", PEM)],
            None,
            "h",
            "no output client_key, the key of client_certificate",
        ),
        (
            &[(CA[0], PEM), ("client_certificate", PEM), ("client_key", PEM)],
            None,
            "h",
            "output client_key: there is no PEM block of type PRIVATE KEY",
        ),
        (&[(CA[0], PEM), ("region", "eu/west")], eks, "h", "region \"eu/west\" is none"),
    ];
    for (outputs, asked, host, expected) in rows {
        let problem = chosen(outputs, asked, host).unwrap_err();
        assert!(problem.message.contains(expected), "{} should say {expected}", problem.message);
        assert!(!problem.message.contains("hunter2"), "what may be a secret is not told");
    }
}

#[test]
fn who_asks_wins_in_order() {
    let output = material(&[("cluster_auth", "eks")]);
    let none = material(&[]);
    let rows = [
        (None, None, &none, Ok(None)),
        (None, None, &output, Ok(Some(Auth::Eks))),
        (None, Some("eks-exec"), &output, Ok(Some(Auth::EksExec))),
        (Some("eks"), Some("eks-exec"), &none, Ok(Some(Auth::Eks))),
        (
            Some("gke"),
            None,
            &output,
            Err("annotation infrastructure.cluster.x-k8s.io/cluster-auth of the CAPTControlPlane is \"gke\""),
        ),
    ];
    for (control_plane, template, material, expected) in rows {
        match (asked(control_plane, template, material), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(problem), Err(expected)) => {
                assert!(problem.message.contains(expected), "{}", problem.message);
            }
            (found, _) => panic!("{found:?}"),
        }
    }
}

#[test]
fn only_what_a_module_returned_is_signed_for() {
    type Said<'a> = (&'a [(&'a str, &'a str)], Option<&'a str>, Result<Option<&'a str>, &'a str>);
    let host = ("cluster_endpoint", "https://A.gr7.eu-west-1.eks.amazonaws.com");
    let (name, auth) = (("cluster_name", "made"), ("cluster_auth", "eks"));
    let config = whole("k8s-aws-v1.abc");
    let rows: [Said<'_>; 13] = [
        (&[name, auth], None, Ok(None)),
        (&[name], Some("eks"), Ok(None)),
        (&[name, host], None, Ok(Some("eu-west-1"))),
        (&[name, host, ("region", "us-east-2")], None, Ok(Some("eu-west-1"))),
        (&[name, auth, ("region", "us-east-2")], None, Ok(Some("us-east-2"))),
        (&[name, ("token", "k8s-aws-v1.abc")], None, Ok(None)),
        (&[name, ("kubeconfig", &config)], None, Ok(None)),
        (&[], None, Err("no output cluster_auth")),
        (&[name, ("cluster_endpoint", "https://other.example")], None, Err("no output cluster_auth")),
        (&[name, auth], Some("eks-exec"), Err("no output cluster_auth")),
        (&[host, auth], None, Err("no output cluster_name")),
        (&[auth, ("cluster_name", " ")], None, Err("no output cluster_name")),
        (&[name, auth, ("region", "eu/west")], None, Err("output region is \"eu/west\"")),
    ];
    for (outputs, shared, expected) in rows {
        match (returned(&material(outputs), shared), expected) {
            (Ok(cluster), Ok(region)) => {
                assert_eq!((&*cluster.name, cluster.region.as_deref()), ("made", region), "{outputs:?}");
            }
            (Err(problem), Err(expected)) => {
                assert!(problem.message.contains(expected), "{} should say {expected}", problem.message);
            }
            (found, _) => panic!("{outputs:?}: {found:?}"),
        }
    }
}

#[test]
fn the_secret_holds_what_the_status_may_not() {
    let open =
        [("a".to_owned(), json!("old")), ("n".to_owned(), json!(null)), ("l".to_owned(), json!([1]))].into();
    let secret =
        [("a".to_owned(), ByteString(b"new".to_vec())), ("b".to_owned(), ByteString(vec![0xff]))].into();
    let material = Material::new(&open, Some(&secret));
    assert_eq!(material.text("a"), Some("new"));
    assert_eq!(material.text("l"), Some("[1]"));
    assert_eq!((material.text("b"), material.text("n")), (None, None));
}

#[test]
fn addresses_of_the_sixth_version_get_brackets() {
    assert_eq!(server_of(&Endpoint { host: "::1".into(), port: 6443 }), "https://[::1]:6443");
    assert_eq!(server_of(&Endpoint { host: "[::1]".into(), port: 6443 }), "https://[::1]:6443");
    assert_eq!(server_of(&endpoint("a.b")), "https://a.b:443");
}
