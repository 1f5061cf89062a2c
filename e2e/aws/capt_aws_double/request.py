"""Tells which service, action and principal a request is of."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

import botocore.session
from moto.iam import models as moto_iam
from moto.sts.models import sts_backends
from moto.utilities.utils import get_partition

CREDENTIAL = re.compile(r"Credential=([^/]+)/\d{8}/([^/]+)/([^/]+)/aws4_request")
# What an unsigned request may ask for, by the form's Action.
UNSIGNED = {"AssumeRoleWithWebIdentity": "sts", "AssumeRoleWithSAML": "sts"}


@dataclass
class Call:
    """One request to AWS."""

    service: str
    action: str
    region: str
    account: str
    access_key: str
    principal: str
    method: str
    # Percent-encoded, as it was sent: an ARN in a path has slashes.
    path: str
    # Query string and form. What occurs twice keeps its last value; `body` has the lists of JSON.
    params: dict[str, str] = field(default_factory=dict)
    body: dict[str, Any] = field(default_factory=dict)

    @property
    def partition(self) -> str:
        """aws, aws-cn or aws-us-gov."""
        return get_partition(self.region)

    @property
    def protocol(self) -> str:
        """The shape that the service's errors have: `ec2`, `query`, `json`, `rest-json` or `rest-xml`."""
        model = service_model(self.service)
        return model.metadata["protocol"] if model else "query"


@lru_cache(maxsize=None)
def service_model(service: str) -> Any | None:
    """botocore's model of a service, by the name that requests are signed for."""
    session = botocore.session.get_session()
    names = {"elasticloadbalancing": "elbv2", "monitoring": "cloudwatch"}
    try:
        return session.get_service_model(names.get(service, service))
    except Exception:
        return None


@lru_cache(maxsize=None)
def rest_routes(service: str) -> list[tuple[str, re.Pattern[str], str]]:
    """Method, pattern of the path, and operation. Literal segments come before labels that match anything."""
    model = service_model(service)
    if model is None or not model.metadata["protocol"].startswith("rest"):
        return []
    routes = []
    for name in model.operation_names:
        http = model.operation_model(name).http
        path = http["requestUri"].split("?")[0]
        pattern = re.escape(path).replace(r"\{", "{").replace(r"\}", "}").replace(r"\+}", "}")
        # The ARN of a tag request is the rest of the path, however it was encoded.
        pattern = pattern.replace("{resourceArn}", "(?P<resourceArn>.+)")
        pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", pattern)
        routes.append((path.count("{"), http["method"], re.compile(pattern + "/?$"), name))
    routes.sort(key=lambda route: route[0])
    return [route[1:] for route in routes]


def match_route(service: str, method: str, path: str) -> tuple[str, dict[str, str]] | None:
    """The operation of a REST request, and the labels in its path."""
    for wanted, pattern, name in rest_routes(service):
        found = pattern.match(path) if wanted == method else None
        if found:
            return name, {label: unquote(value) for label, value in found.groupdict().items()}
    return None


def principal_of(account: str, region: str, access_key: str) -> str:
    """ARN of whoever has the access key, as STS tells it."""
    partition = get_partition(region)
    return sts_backends[account][partition].get_caller_identity(access_key, region)[1]


def _read_body(environ: dict[str, Any]) -> bytes:
    """The body, which stays readable for moto."""
    length = int(environ.get("CONTENT_LENGTH") or 0)
    body = environ["wsgi.input"].read(length) if length else b""
    environ["wsgi.input"] = io.BytesIO(body)
    return body


def _json(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body or b"{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def read(environ: dict[str, Any], prepare: Callable[[str], None]) -> Call:
    """Reads a request. `prepare` is called with the region before anybody looks up who asks."""
    body = _read_body(environ)
    method = environ["REQUEST_METHOD"]
    raw = environ.get("RAW_URI") or quote(environ.get("PATH_INFO", "/"))
    path = re.sub(r"^https?://[^/]+", "", raw).split("?")[0]
    params = dict(parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True))
    if environ.get("CONTENT_TYPE", "").startswith("application/x-www-form-urlencoded"):
        params.update(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))

    scope = CREDENTIAL.search(environ.get("HTTP_AUTHORIZATION", ""))
    scope = scope or CREDENTIAL.search("Credential=" + params.get("X-Amz-Credential", ""))
    access_key, region, service = scope.groups() if scope else ("", "us-east-1", "")
    action = params.get("Action", "")
    if not service:
        service = UNSIGNED.get(action, "s3")
    fields: dict[str, Any] = {}
    if not action:
        target = environ.get("HTTP_X_AMZ_TARGET", "")
        route = match_route(service, method, path)
        action = target.rpartition(".")[2] or (route[0] if route else f"{method} {path}")
        fields = _json(body)
    prepare(region)
    account = moto_iam.get_account_id_from(access_key)
    principal = principal_of(account, region, access_key) if access_key else "anonymous"
    return Call(service, action, region, account, access_key, principal, method, path, params, fields)
