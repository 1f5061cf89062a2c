//! Impersonation, and which paths are open to anybody.
//!
//! The rules are kube-apiserver's: each part of the wish must be allowed; members of `system:masters` may act as anybody.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, Method, StatusCode, header};
use percent_encoding::percent_decode_str;
use serde_json::json;

use super::status::Refusal;
use crate::authn::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User};
use crate::rbac::{ResourceAttributes, Verdict};
use crate::status::go;

const AUTHENTICATION: &str = "authentication.k8s.io";
const AS_USER: &str = "impersonate-user";
const AS_GROUP: &str = "impersonate-group";
const AS_UID: &str = "impersonate-uid";
const AS_EXTRA: &str = "impersonate-extra-";

/// True of what anybody may ask: whether the server is well, and its version.
pub fn is_public(method: &Method, path: &str) -> bool {
    *method == Method::GET && matches!(path, "/healthz" | "/livez" | "/readyz" | "/version" | "/version/")
}

/// Returns whether a request has headers of impersonation.
pub(super) fn is_wish(headers: &HeaderMap) -> bool {
    headers.keys().any(is_of_wish)
}

fn is_of_wish(name: &HeaderName) -> bool {
    name.as_str().starts_with("impersonate-")
}

/// Whom `user` asks to be; `None` without such a wish. Every part of the wish must be allowed.
pub(super) fn impersonated(
    user: &User,
    headers: &HeaderMap,
    may: impl Fn(&ResourceAttributes<'_>) -> Verdict,
) -> Result<Option<User>, Refusal> {
    let values = |name: &str| {
        headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let groups: Vec<_> = values(AS_GROUP).collect();
    let uid = values(AS_UID).next().filter(|uid| !uid.is_empty());
    let extra = extra_of(headers);
    let Some(name) = values(AS_USER).next().filter(|name| !name.is_empty()) else {
        if groups.is_empty() && uid.is_none() && extra.is_empty() {
            return Ok(None);
        }
        return Err(without_user(&groups, uid.as_deref(), &extra));
    };
    let check = |wish: ResourceAttributes<'_>| match may(&wish) {
        Verdict { allowed: true, .. } => Ok(()),
        Verdict { reason, .. } => Err(may_not_impersonate(user, &wish, &reason)),
    };
    check(match service_account(&name) {
        Some((namespace, name)) => {
            ResourceAttributes { plural: "serviceaccounts", name, namespace, ..ResourceAttributes::default() }
        }
        None => ResourceAttributes { plural: "users", name: &name, ..ResourceAttributes::default() },
    })?;
    for group in &groups {
        check(ResourceAttributes { plural: "groups", name: group, ..ResourceAttributes::default() })?;
    }
    for (key, values) in &extra {
        for value in values {
            check(ResourceAttributes {
                group: AUTHENTICATION,
                plural: "userextras",
                subresource: key,
                name: value,
                ..ResourceAttributes::default()
            })?;
        }
    }
    if let Some(uid) = &uid {
        check(ResourceAttributes {
            group: AUTHENTICATION,
            plural: "uids",
            name: uid,
            ..ResourceAttributes::default()
        })?;
    }
    Ok(Some(User { groups: groups_of(&name, groups), name, uid, extra }))
}

/// `Impersonate-Extra-<key>`: the key may be percent-encoded, and one key may have several values.
fn extra_of(headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(AS_EXTRA) {
            let decoded = percent_decode_str(key).decode_utf8().map_or_else(|_| key.to_owned(), Into::into);
            extra.entry(decoded).or_default().push(String::from_utf8_lossy(value.as_bytes()).into_owned());
        }
    }
    extra
}

/// Removes what no one behind secure serving should see.
pub(super) fn strip(headers: &mut HeaderMap) {
    headers.remove(header::AUTHORIZATION);
    let wishes: Vec<_> = headers.keys().filter(|name| is_of_wish(name)).cloned().collect();
    for name in wishes {
        headers.remove(name);
    }
}

/// Groups an impersonated user has: those asked for, else those its name tells; and whether it is known at all.
fn groups_of(name: &str, mut groups: Vec<String>) -> Vec<String> {
    if groups.is_empty()
        && let Some((namespace, _)) = service_account(name)
    {
        groups.push("system:serviceaccounts".to_owned());
        groups.push(format!("system:serviceaccounts:{namespace}"));
    }
    let has = |wanted: &str| groups.iter().any(|group| group == wanted);
    if name == ANONYMOUS {
        if !has(UNAUTHENTICATED) {
            groups.push(UNAUTHENTICATED.to_owned());
        }
    } else if !has(AUTHENTICATED) && !has(UNAUTHENTICATED) {
        groups.push(AUTHENTICATED.to_owned());
    }
    groups
}

fn service_account(name: &str) -> Option<(&str, &str)> {
    let (namespace, name) = name.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

/// The message prints object references the way Go does, as kube-apiserver's.
fn without_user(groups: &[String], uid: Option<&str>, extra: &BTreeMap<String, Vec<String>>) -> Refusal {
    let groups = groups.iter().map(|group| format!("{{Group  {group}    }}"));
    let extra = extra.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
    let extra = extra.map(|(key, value)| format!("{{UserExtra  {value}  {AUTHENTICATION}/v1  {key}}}"));
    let uid = uid.map(|uid| format!("{{UID  {uid}  {AUTHENTICATION}/v1  }}"));
    let wishes = groups.chain(extra).chain(uid).collect::<Vec<_>>().join(" ");
    let message = format!("requested [{wishes}] without impersonating a user");
    Refusal::new(StatusCode::BAD_REQUEST, "BadRequest", message)
}

fn may_not_impersonate(user: &User, wish: &ResourceAttributes<'_>, reason: &str) -> Refusal {
    let ResourceAttributes { group, plural, subresource, name, namespace } = *wish;
    let place = match namespace {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {}", go::quote(namespace)),
    };
    let (dot, slash) =
        (if group.is_empty() { "" } else { "." }, if subresource.is_empty() { "" } else { "/" });
    let mut message = format!(
        "{plural}{dot}{group} {} is forbidden: User {} cannot impersonate resource {} in API group {} {place}",
        go::quote(name),
        go::quote(&user.name),
        go::quote(&format!("{plural}{slash}{subresource}")),
        go::quote(group)
    );
    if !reason.is_empty() {
        message = format!("{message}: {reason}");
    }
    let mut details = json!({"name": name, "kind": plural});
    if !group.is_empty() {
        details["group"] = group.into();
    }
    Refusal { details: Some(details), ..Refusal::new(StatusCode::FORBIDDEN, "Forbidden", message) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).fold(
            HeaderMap::new(),
            |mut headers, (name, value): (HeaderName, http::HeaderValue)| {
                headers.append(name, value);
                headers
            },
        )
    }

    fn yes() -> Verdict {
        Verdict { allowed: true, reason: String::new() }
    }

    #[test]
    fn extra_is_passed_on_and_must_be_allowed_too() {
        let wish = headers(&[
            ("impersonate-user", "ann"),
            ("impersonate-uid", "1"),
            ("impersonate-extra-acme.com%2fproject", "a"),
            ("impersonate-extra-acme.com%2fproject", "b"),
        ]);
        let user = impersonated(&User::admin(), &wish, |_| yes()).unwrap().unwrap();
        assert_eq!(user.extra, BTreeMap::from([("acme.com/project".into(), vec!["a".into(), "b".into()])]));
        let bob = User::known("bob".to_owned(), vec![]);
        let may = |wish: &ResourceAttributes<'_>| Verdict {
            allowed: wish.plural == "users",
            reason: "so".to_owned(),
        };
        assert_eq!(
            impersonated(&bob, &wish, may).unwrap_err().message,
            r#"userextras.authentication.k8s.io "a" is forbidden: User "bob" cannot impersonate resource "userextras/acme.com/project" in API group "authentication.k8s.io" at the cluster scope: so"#
        );
    }

    #[test]
    fn impersonation_gives_the_groups_kubernetes_gives() {
        for (wish, groups) in [
            (&[("impersonate-user", "ann")][..], &["system:authenticated"][..]),
            (
                &[("impersonate-user", "ann"), ("impersonate-group", "a"), ("impersonate-group", "b")],
                &["a", "b", "system:authenticated"],
            ),
            (
                &[("impersonate-user", "ann"), ("impersonate-group", "system:unauthenticated")],
                &["system:unauthenticated"],
            ),
            (&[("impersonate-user", "system:anonymous")], &["system:unauthenticated"]),
            (
                &[("impersonate-user", "system:serviceaccount:ns:sa")],
                &["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"],
            ),
        ] {
            let user = impersonated(&User::admin(), &headers(wish), |_| yes()).unwrap().unwrap();
            assert_eq!((user.name.as_str(), &user.groups[..]), (wish[0].1, &groups.map_owned()[..]));
        }
    }

    trait MapOwned {
        fn map_owned(&self) -> Vec<String>;
    }

    impl MapOwned for &[&str] {
        fn map_owned(&self) -> Vec<String> {
            self.iter().map(|text| (*text).to_owned()).collect()
        }
    }

    #[test]
    fn impersonation_is_refused_as_kubernetes_refuses_it() {
        let ann = User::known("ann".to_owned(), vec![]);
        for (user, wish, code, message) in [
            (
                &ann,
                &[("impersonate-user", "bob")][..],
                403,
                r#"users "bob" is forbidden: User "ann" cannot impersonate resource "users" in API group "" at the cluster scope"#,
            ),
            (
                &ann,
                &[("impersonate-user", "system:serviceaccount:ns:sa")],
                403,
                r#"serviceaccounts "sa" is forbidden: User "ann" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "ns""#,
            ),
            (
                &User::admin(),
                &[("impersonate-group", "a"), ("impersonate-uid", "1")],
                400,
                "requested [{Group  a    } {UID  1  authentication.k8s.io/v1  }] without impersonating a user",
            ),
        ] {
            let refusal = impersonated(user, &headers(wish), |_| Verdict::default()).unwrap_err();
            assert_eq!((refusal.code.as_u16(), refusal.message.as_str()), (code, message));
        }
    }

    #[test]
    fn nothing_secret_goes_further() {
        let mut all = headers(&[
            ("authorization", "Bearer x"),
            ("impersonate-user", "ann"),
            ("impersonate-extra-scopes", "x"),
            ("accept", "*/*"),
        ]);
        strip(&mut all);
        assert_eq!(all, headers(&[("accept", "*/*")]));
    }
}
