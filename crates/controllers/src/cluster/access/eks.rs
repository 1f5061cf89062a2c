//! Tokens for EKS: a signed request to STS that the cluster sends to learn who asks. Pure; nothing is sent from here.
//!
//! A token says itself when it was made, so nothing else needs to be remembered: not in memory, not in an annotation.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::civil::DateTime;
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use sha2::{Digest, Sha256};

use super::sigv4::{Get, Scope, Signer, TIME, presign};

/// Prefix of every token of EKS.
pub const PREFIX: &str = "k8s-aws-v1.";
/// Header that names the cluster; it is signed, so a token is good for one cluster alone.
const CLUSTER_HEADER: &str = "x-k8s-aws-id";
/// Hash of nothing: the request has no body.
const NO_BODY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// Validity of the URL, by its own words. EKS goes by its date instead, but expects it.
const URL_VALID: Duration = Duration::from_secs(60);
/// Lifetime of a token at EKS, less a minute for clocks that differ.
const LIFETIME: SignedDuration = SignedDuration::from_secs(14 * 60);
/// Age at which a token is replaced: with time for several tries before it ends.
const RENEW: SignedDuration = SignedDuration::from_secs(9 * 60);
/// Over how long the replacements of tokens that were made together are spread, in seconds.
const SPREAD: i64 = 60;

/// A token for a cluster.
pub fn mint(signer: &Signer<'_>, region: &str, cluster: &str, now: Timestamp) -> String {
    let host = host(region);
    let get = Get {
        host: &host,
        path: "/",
        query: &[("Action", "GetCallerIdentity"), ("Version", "2011-06-15")],
        headers: &[(CLUSTER_HEADER, cluster)],
        payload: NO_BODY,
    };
    let scope = Scope { region, service: "sts" };
    let url = presign(&get, signer, &scope, now, URL_VALID);
    format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(url))
}

/// Returns the host of STS in a region.
fn host(region: &str) -> String {
    let suffix = if region.starts_with("cn-") { ".cn" } else { "" };
    format!("sts.{region}.amazonaws.com{suffix}")
}

/// Returns true if a text can be a region: it becomes part of a host name.
pub fn is_region(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 63
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// The region of an endpoint that is one of EKS by its name; none where it may be anything.
pub fn region_of(host: &str) -> Option<&str> {
    let host = host.strip_suffix(".cn").unwrap_or(host);
    host.strip_suffix(".eks.amazonaws.com")?.rsplit('.').next()
}

/// Facts that a token holds about itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TokenFacts {
    /// Time at which it was made.
    pub made: Timestamp,
    /// Id of the access key that signed it.
    pub key_id: String,
    /// The region whose STS is to be asked.
    pub region: String,
}

impl TokenFacts {
    /// Reads a token.
    pub fn of(token: &str) -> Option<Self> {
        let url = String::from_utf8(URL_SAFE_NO_PAD.decode(token.strip_prefix(PREFIX)?).ok()?).ok()?;
        let (_, query) = url.split_once('?')?;
        let value = |wanted: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            let (_, value) = pairs.find(|(name, _)| *name == wanted)?;
            percent_encoding::percent_decode_str(value).decode_utf8().ok()
        };
        let made = DateTime::strptime(TIME, value("X-Amz-Date")?.as_ref()).ok()?;
        let credential = value("X-Amz-Credential")?;
        let mut parts = credential.split('/');
        Some(Self {
            made: made.to_zoned(TimeZone::UTC).ok()?.timestamp(),
            key_id: parts.next()?.to_owned(),
            region: parts.nth(1)?.to_owned(),
        })
    }

    /// Until when it can be used.
    pub fn ends(&self) -> Timestamp {
        self.made.saturating_add(LIFETIME).unwrap_or(Timestamp::MAX)
    }

    /// Returns the time at which it is replaced. `seed` moves that a little, always in the same way.
    pub fn due(&self, seed: &str) -> Timestamp {
        let hash = Sha256::digest(seed.as_bytes());
        let chance = i64::from(u16::from_be_bytes([hash[0], hash[1]])) % SPREAD;
        let after = RENEW + SignedDuration::from_secs(chance);
        self.made.saturating_add(after).unwrap_or(Timestamp::MAX)
    }

    /// Returns true if it can be left as it is: not due, and not from a clock that ran ahead.
    pub fn is_fresh(&self, seed: &str, now: Timestamp) -> bool {
        let ahead = now.saturating_add(SignedDuration::from_secs(60)).unwrap_or(Timestamp::MAX);
        now < self.due(seed) && self.made <= ahead
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const AT: &str = "2026-01-02T03:04:05Z";

    fn signer(session: Option<&str>) -> Signer<'_> {
        Signer { key_id: "AKIDEXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", session }
    }

    /// The figures are those that AWS's own library for Python (botocore 1.43) gives for the same request.
    #[test]
    fn a_token_is_what_aws_makes() {
        let rows = [
            (
                None,
                "ap-northeast-1",
                "demo",
                "9546e43839b720f288b50c64eb396444c024b8cc35e9c8440632780cfd60e359",
            ),
            (
                Some("IQoJb3JpZ2luX2VjE/+="),
                "eu-west-1",
                "a b",
                "e7abd3d452eb31fe9c3d5e27e5c87968de31fb29f18a698ce7853196eed69455",
            ),
        ];
        for (session, region, cluster, signature) in rows {
            let token = mint(&signer(session), region, cluster, AT.parse().unwrap());
            let url = URL_SAFE_NO_PAD.decode(token.strip_prefix(PREFIX).unwrap()).unwrap();
            let url = String::from_utf8(url).unwrap();
            assert!(
                url.starts_with(&format!("https://sts.{region}.amazonaws.com/?Action=GetCallerIdentity&"))
            );
            assert!(url.ends_with(&format!("&X-Amz-Signature={signature}")), "{url}");
            assert!(url.contains("X-Amz-Expires=60&"), "{url}");
        }
    }

    #[test]
    fn a_token_tells_when_it_was_made() {
        let now: Timestamp = AT.parse().unwrap();
        let facts = TokenFacts::of(&mint(&signer(None), "cn-north-1", "c", now)).unwrap();
        assert_eq!(
            facts,
            TokenFacts { made: now, key_id: "AKIDEXAMPLE".into(), region: "cn-north-1".into() }
        );
        for broken in ["", "k8s-aws-v1.", "k8s-aws-v1.!!", "other", "k8s-aws-v1.aHR0cHM6Ly94Lz9h"] {
            assert_eq!(TokenFacts::of(broken), None, "{broken}");
        }
    }

    #[test]
    fn it_is_replaced_well_before_it_ends() {
        let made: Timestamp = AT.parse().unwrap();
        let facts = TokenFacts { made, key_id: String::new(), region: String::new() };
        let dues: Vec<i64> =
            (0..200).map(|n| facts.due(&n.to_string()).duration_since(made).as_secs()).collect();
        assert!(dues.iter().all(|due| (9 * 60..10 * 60).contains(due)), "{dues:?}");
        assert!(dues.iter().collect::<std::collections::BTreeSet<_>>().len() > 40, "spread");
        let after = |seconds| made + SignedDuration::from_secs(seconds);
        assert!(facts.is_fresh("a", made) && facts.is_fresh("a", after(8 * 60)));
        assert!(!facts.is_fresh("a", after(10 * 60)));
        assert!(!facts.is_fresh("a", after(-120)), "a clock that ran ahead");
        assert!(facts.ends() > facts.due("a") + SignedDuration::from_secs(180), "time for several tries");
    }

    #[test]
    fn endpoints_of_eks_are_known_by_their_names() {
        let rows = [
            ("ABC.gr7.eu-west-1.eks.amazonaws.com", Some("eu-west-1")),
            ("ABC.sk1.cn-north-1.eks.amazonaws.com.cn", Some("cn-north-1")),
            ("abc.ap-northeast-1.eks.example", None),
            ("ec2.us-east-2.api.aws", None),
            ("eks.amazonaws.com", None),
        ];
        for (host, region) in rows {
            assert_eq!(region_of(host), region, "{host}");
        }
        assert!(is_region("us-gov-west-1"));
        for wrong in ["", "eu-west-1/x", "EU", "a.b", "a b"] {
            assert!(!is_region(wrong), "{wrong}");
        }
    }
}
