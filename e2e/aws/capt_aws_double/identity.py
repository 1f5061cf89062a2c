"""Who signed a request: access keys, EKS tokens, and the TokenReview that a kube-apiserver asks for."""

from __future__ import annotations

import base64
import binascii
import datetime
import hashlib
import hmac
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from moto.core import DEFAULT_ACCOUNT_ID
from moto.iam.models import iam_backends
from moto.sts.models import sts_backends
from moto.utilities.utils import get_partition

from .eks.access import canonical
from .eks.catalog import policy_arn
from .eks.state import AccessEntry, Cluster, Region
from .options import Options

PREFIX = "k8s-aws-v1."
# How long EKS takes a token, whatever its X-Amz-Expires says.
LIFETIME = datetime.timedelta(minutes=15)
NO_BODY = hashlib.sha256(b"").hexdigest()
STS_HOST = re.compile(r"sts(-fips)?(\.[a-z0-9-]+)?\.amazonaws\.com(\.cn)?")


class TokenError(Exception):
    """A token that is not taken, and why."""


@dataclass
class Identity:
    """The holder of an access key."""

    arn: str
    user_id: str
    account: str
    key: str
    secret: str
    session_token: str | None
    expires: datetime.datetime | None


def install_users(options: Options, region: str) -> None:
    """Makes the configured users in IAM of a region's partition, with the keys they have, unless they are there."""
    iam = iam_backends[DEFAULT_ACCOUNT_ID][get_partition(region)]
    for user in options.users:
        if user.name not in iam.users:
            key = iam.create_user(region, user.name).create_access_key(prefix="AKIA")
            key.access_key_id, key.secret_access_key = user.key, user.secret
            iam.access_keys[user.key] = key


def identity_of(access_key: str, region: str) -> Identity | None:
    """The holder of an access key; none for one that IAM did not give out."""
    for account, partition, iam in list(iam_backends.iter_backends()):
        key = iam.access_keys.get(access_key)
        # A configured user is in each partition: the one of the region is meant.
        if key is None or partition != get_partition(region):
            continue
        sts = sts_backends[account][partition]
        user_id, arn, _ = sts.get_caller_identity(access_key, region)
        role = sts.get_assumed_role_from_access_key(access_key)
        session, expires = (role.session_token, role.expiration) if role else (None, None)
        return Identity(arn, user_id, account, access_key, key.secret_access_key, session, expires)
    return None


def read_token(token: str, cluster: str, own_hosts: set[str]) -> Identity:
    """Takes or refuses a token for a cluster."""
    if not token.startswith(PREFIX):
        raise TokenError("token is missing expected prefix")
    encoded = token.removeprefix(PREFIX)
    try:
        url = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    except (binascii.Error, ValueError) as error:
        raise TokenError("token is not base64") from error
    parts = urlsplit(url)
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    query = {key.lower(): value for key, value in pairs}
    if len(query) != len(pairs):
        raise TokenError("a parameter occurs twice")
    if not STS_HOST.fullmatch(parts.netloc) and parts.netloc not in own_hosts:
        raise TokenError(f"unexpected hostname {parts.netloc!r} in pre-signed URL")
    if parts.path not in ("", "/"):
        raise TokenError("unexpected path in pre-signed URL")
    if query.get("action") != "GetCallerIdentity":
        raise TokenError("unexpected action parameter in pre-signed URL")
    signed = query.get("x-amz-signedheaders", "").split(";")
    if not {"host", "x-k8s-aws-id"} <= set(signed):
        raise TokenError("client did not sign the x-k8s-aws-id header in the pre-signed URL")
    _check_time(query)
    scope = query.get("x-amz-credential", "").split("/")
    if len(scope) != 5 or scope[3:] != ["sts", "aws4_request"]:
        raise TokenError("the credential's scope is not that of STS")
    identity = identity_of(scope[0], scope[2])
    if identity is None:
        raise TokenError(f"the access key {scope[0]} is unknown")
    if identity.session_token and query.get("x-amz-security-token") != identity.session_token:
        raise TokenError("the security token is not that of the session")
    if identity.expires and identity.expires.replace(tzinfo=datetime.timezone.utc) < _now():
        raise TokenError("the session has expired")
    headers = {"host": parts.netloc, "x-k8s-aws-id": cluster}
    wanted = signature(identity.secret, parts.path or "/", pairs, headers, signed)
    if not hmac.compare_digest(wanted, query.get("x-amz-signature", "")):
        raise TokenError("the signature does not match: another secret, or a token for another cluster")
    return identity


def _now() -> datetime.datetime:
    # Tokens are made by the clocks of clients, which do not follow the clock of the double.
    return datetime.datetime.now(datetime.timezone.utc)


def _check_time(query: dict[str, str]) -> None:
    try:
        made = datetime.datetime.strptime(query.get("x-amz-date", ""), "%Y%m%dT%H%M%SZ")
        expires = int(query.get("x-amz-expires", ""))
    except ValueError as error:
        raise TokenError("X-Amz-Date or X-Amz-Expires is missing or not valid") from error
    made = made.replace(tzinfo=datetime.timezone.utc)
    if not 0 <= expires <= LIFETIME.total_seconds():
        raise TokenError("invalid X-Amz-Expires parameter in pre-signed URL")
    if made + LIFETIME < _now():
        raise TokenError(f"the token expired at {made + LIFETIME}")
    if made > _now() + datetime.timedelta(minutes=5):
        raise TokenError("the token is from the future")


def signature(
    secret: str, path: str, pairs: list[tuple[str, str]], headers: dict[str, str], signed: list[str]
) -> str:
    """Signature of a presigned GET by version 4 of AWS' way to sign."""
    escape = lambda text: quote(text, safe="-_.~")
    query = {key.lower(): value for key, value in pairs}
    canonical_query = "&".join(
        sorted(f"{escape(key)}={escape(value)}" for key, value in pairs if key.lower() != "x-amz-signature")
    )
    lines = "".join(f"{name}:{headers.get(name, '').strip()}\n" for name in signed)
    request = "\n".join(["GET", path, canonical_query, lines, ";".join(signed), NO_BODY])
    _, date, region, service, end = query["x-amz-credential"].split("/")
    scope = f"{date}/{region}/{service}/{end}"
    hashed = hashlib.sha256(request.encode()).hexdigest()
    text = "\n".join(["AWS4-HMAC-SHA256", query["x-amz-date"], scope, hashed])
    key = ("AWS4" + secret).encode()
    for part in (date, region, service, end, text):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key.hex()


def _plain(arn: str) -> str:
    """An IAM identity without its path: sessions of a role do not tell that."""
    start, _, name = canonical(arn).partition("/")
    return f"{start}/{name.rpartition('/')[2]}"


def _entry(cluster: Cluster, identity: Identity) -> AccessEntry | None:
    entries = cluster.access.items()
    return next((entry for arn, entry in entries if _plain(arn) == _plain(identity.arn)), None)


def _user(region: Region, entry: AccessEntry, identity: Identity, admin_group: str) -> dict[str, Any]:
    session = identity.arn.rpartition("/")[2]
    groups = list(entry.data["kubernetesGroups"])
    for policy, association in entry.policies.items():
        everywhere = association["accessScope"]["type"] == "cluster"
        if policy == policy_arn(region, "AmazonEKSClusterAdminPolicy") and everywhere:
            groups.append(admin_group)
        else:
            groups.append("eks:access-policy:" + policy.rpartition("/")[2])
    name = entry.data["username"].replace("{{SessionName}}", session.replace("@", "-"))
    if "{{EC2PrivateDNSName}}" in name:
        # The session of an instance's role is named after the instance.
        instance = next((one for one in region.ec2.all_instances() if one.id == session), None)
        if instance is None:
            raise TokenError(f"there is no instance {session}")
        name = name.replace("{{EC2PrivateDNSName}}", instance.private_dns_name)
    extra = {
        "accessKeyId": [identity.key],
        "arn": [identity.arn],
        "canonicalArn": [canonical(identity.arn)],
        "principalId": [identity.user_id.partition(":")[0]],
        "sessionName": [session if ":assumed-role/" in identity.arn else ""],
    }
    uid = f"aws-iam-authenticator:{identity.account}:{identity.user_id.partition(':')[0]}"
    return {"username": name, "uid": uid, "groups": groups, "extra": extra}


def review(
    region: Region, cluster: Cluster, document: dict[str, Any], own_hosts: set[str], admin_group: str
) -> dict[str, Any]:
    """Answers a TokenReview of authentication.k8s.io/v1."""
    try:
        identity = read_token(document.get("spec", {}).get("token", ""), cluster.name, own_hosts)
        entry = _entry(cluster, identity) if cluster.mode != "CONFIG_MAP" else None
        if entry is None:
            raise TokenError(f"{identity.arn} has no access entry in cluster {cluster.name}")
        status: dict[str, Any] = {"authenticated": True, "user": _user(region, entry, identity, admin_group)}
    except TokenError as error:
        status = {"authenticated": False, "error": str(error)}
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": status}
