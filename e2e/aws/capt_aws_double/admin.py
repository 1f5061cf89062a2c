"""The endpoints below /_double: faults, calls, resources, clock, and the rest of what tests turn and read."""

from __future__ import annotations

import base64
import json
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote

from werkzeug.wrappers import Response

from . import answers, identity, resources
from .eks.state import Cluster, Region
from .options import REALISTIC

if TYPE_CHECKING:
    from .server import Double

PREFIX = "/_double"


class AdminError(Exception):
    """A request that cannot be taken."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Admin:
    """Answers requests of tests."""

    def __init__(self, double: Double) -> None:
        self._double = double
        self._routes: dict[tuple[str, str], Callable[[Any, dict[str, str]], Any]] = {
            ("GET", "faults"): lambda body, query: [rule.listed() for rule in double.faults.rules],
            ("PUT", "faults"): self._put_faults,
            ("DELETE", "faults"): lambda body, query: double.faults.replace([]),
            ("GET", "calls"): lambda body, query: double.calls.listed(),
            ("DELETE", "calls"): lambda body, query: double.calls.clear(),
            ("GET", "permissions"): lambda body, query: double.calls.permissions(),
            ("GET", "resources"): lambda body, query: resources.listed(double.eks, double.options),
            ("POST", "reset"): lambda body, query: double.reset(),
            ("GET", "clock"): self._clock,
            ("POST", "clock"): self._move_clock,
            ("GET", "durations"): lambda body, query: double.options.durations,
            ("PUT", "durations"): self._set_durations,
            ("PUT", "consistency"): self._set_consistency,
            ("DELETE", "consistency"): lambda body, query: double.consistency.reset(),
        }

    def answer(self, environ: dict[str, Any]) -> Response:
        """Answers one request."""
        path = unquote(environ["PATH_INFO"]).removeprefix(PREFIX).strip("/")
        query = {key: values[-1] for key, values in parse_qs(environ.get("QUERY_STRING", "")).items()}
        try:
            raw = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            body = json.loads(raw) if raw else None
            self._double.clock.run_due()
            value = self._route(environ["REQUEST_METHOD"], path, query, body)
        except AdminError as error:
            return answers.as_json({"message": str(error)}, error.status)
        except (ValueError, TypeError, KeyError) as error:
            return answers.as_json({"message": f"{type(error).__name__}: {error}"}, 400)
        except Exception:
            return answers.as_json({"message": traceback.format_exc()}, 500)
        return answers.as_json({} if value is None else value)

    def _route(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
        first, _, rest = path.partition("/")
        if first == "clusters" and rest and method == "POST":
            return self._configure(rest, query, body or {})
        if first == "token-review" and method == "POST":
            region, cluster = self._find(rest or query.get("cluster", ""), query)
            group = self._double.options.admin_group
            return identity.review(region, cluster, body or {}, self._double.hosts, group)
        if first == "token-review" and method == "GET":
            region, cluster = self._find(query.get("cluster", ""), query)
            document = {"spec": {"token": query.get("token", "")}}
            return identity.review(region, cluster, document, self._double.hosts, self._double.options.admin_group)
        handler = self._routes.get((method, path))
        if handler is None:
            raise AdminError(404, f"there is no {method} {PREFIX}/{path}")
        return handler(body, query)

    def _find(self, name: str, query: dict[str, str]) -> tuple[Region, Cluster]:
        """A cluster by name, and by region and account where more than one has it."""
        for region, cluster in self._double.eks.clusters():
            fits = query.get("region") in (None, region.name) and query.get("account") in (None, region.account)
            if cluster.name == name and fits:
                return region, cluster
        raise AdminError(404, f"there is no cluster {name}")

    def _configure(self, name: str, query: dict[str, str], body: dict[str, str]) -> dict[str, str]:
        _, cluster = self._find(name, query)
        cluster.endpoint = body.get("endpoint", cluster.endpoint)
        if "ca" in body:
            cluster.ca = encoded_ca(body["ca"])
        return {"endpoint": cluster.endpoint, "ca": cluster.ca}

    def _put_faults(self, body: Any, query: dict[str, str]) -> Any:
        self._double.faults.replace(body if isinstance(body, list) else [body])
        return [rule.listed() for rule in self._double.faults.rules]

    def _clock(self, body: Any, query: dict[str, str]) -> dict[str, Any]:
        clock = self._double.clock
        return {"now": clock.now(), "time": clock.time().isoformat(), "rate": clock.rate}

    def _move_clock(self, body: Any, query: dict[str, str]) -> dict[str, Any]:
        unknown = set(body) - {"advance", "rate"}
        if unknown:
            raise AdminError(400, f"the clock takes `advance` and `rate`, not {sorted(unknown)}")
        if "rate" in body:
            self._double.clock.set_rate(float(body["rate"]))
        self._double.clock.advance(float(body.get("advance", 0)))
        self._double.clock.run_due()
        return self._clock(None, {})

    def _set_durations(self, body: Any, query: dict[str, str]) -> dict[str, float]:
        options = self._double.options
        options.set_durations(REALISTIC if body == "realistic" else body)
        return options.durations

    def _set_consistency(self, body: Any, query: dict[str, str]) -> dict[str, Any]:
        self._double.consistency.set(**body)
        return body


def encoded_ca(pem: str) -> str:
    """A CA as DescribeCluster tells it: PEM in base64. What is encoded already stays."""
    return base64.b64encode(pem.encode()).decode() if "BEGIN CERTIFICATE" in pem else pem
