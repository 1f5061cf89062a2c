"""The double as a WSGI application: faults, consistency and EKS in front of moto."""

from __future__ import annotations

import datetime
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from moto.moto_api._internal.models import moto_api_backend
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler
from werkzeug.test import run_wsgi_app
from werkzeug.wrappers import Response

from . import admin, answers, faults, identity, moto_patches, request
from .calls import Calls
from .clock import Clock
from .consistency import Consistency
from .eks.service import Eks
from .options import Options

CODE = re.compile(rb"<Code>([^<]+)</Code>|\"__type\":\s*\"([^\"]+)\"")
# Where the configured users are from the start; in other partitions, they come with the first call there.
DEFAULT_REGION = "us-east-1"
Start = Callable[..., Any]


class Double:
    """AWS."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.clock, self.faults, self.calls = Clock(), faults.Faults(), Calls()
        self.consistency = Consistency()
        # Names under which clients may have signed tokens for the double itself.
        self.hosts: set[str] = set()
        moto_patches.apply(options, self.clock)
        ca = admin.encoded_ca(options.ca or new_ca())
        self.eks = Eks(options, self.clock, self.faults, self.consistency, ca)
        self._durations = dict(options.durations)
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._admin = admin.Admin(self)
        # moto's backends are not made for requests at the same time.
        self._lock = threading.RLock()
        identity.install_users(options, DEFAULT_REGION)

    def reset(self) -> None:
        """Forgets everything but the start options."""
        self.clock.reset()
        self.faults.replace([])
        self.calls.clear()
        self.consistency.reset()
        self.eks.reset()
        self.options.durations.update(self._durations)
        moto_api_backend.reset()
        identity.install_users(self.options, DEFAULT_REGION)

    def __call__(self, environ: dict[str, Any], start_response: Start) -> Iterable[bytes]:
        self.hosts.add(environ.get("HTTP_HOST", ""))
        if environ.get("PATH_INFO", "").startswith(admin.PREFIX):
            with self._lock:
                return self._admin.answer(environ)(environ, start_response)
        return self._aws(environ)(environ, start_response)

    def _aws(self, environ: dict[str, Any]) -> Response:
        """Answers a call to AWS, or fails as the rules say."""
        with self._lock:
            self.clock.run_due()
            call = request.read(environ, lambda region: identity.install_users(self.options, region))
            rule = self.faults.strike(call)
        if rule and rule.kind == "slow":
            time.sleep(rule.milliseconds / 1000)
        if rule and rule.kind == "reset" and rule.when == "before":
            self._record(call, 0, "reset")
            _reset_connection(environ)
        if rule and rule.kind not in ("slow", "reset"):
            status, code, message = faults.failure(rule, call)
            self._record(call, status, code)
            return answers.error(call, status, code, message)
        with self._lock:
            response, code = self._answer(call, environ)
        self._record(call, response.status_code, code)
        if rule and rule.kind == "reset":
            _reset_connection(environ)
        return response

    def _record(self, call: request.Call, status: int, code: str | None) -> None:
        self.calls.add(call, self.clock.time(), status, code)

    def _answer(self, call: request.Call, environ: dict[str, Any]) -> tuple[Response, str | None]:
        # What became due while the answer was held back.
        self.clock.run_due()
        hidden = self.consistency.hides(call)
        if hidden:
            return answers.error(call, *hidden), hidden[1]
        if call.service == "eks":
            response, code = self.eks.answer(call, environ.get("QUERY_STRING", ""))
        else:
            response, code = self._ask_moto(call, environ)
        if code is None:
            self.consistency.created(call, response.get_data())
        return response, code

    def _ask_moto(self, call: request.Call, environ: dict[str, Any]) -> tuple[Response, str | None]:
        if "HTTP_AUTHORIZATION" not in environ and call.access_key:
            # moto tells the service of a presigned request by its header alone.
            scope = f"{call.access_key}/20260101/{call.region}/{call.service}/aws4_request"
            environ["HTTP_AUTHORIZATION"] = f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"
        body, status, headers = run_wsgi_app(self._moto, environ, buffered=True)
        response = Response(list(body), status, headers)
        if response.status_code < 400:
            return response, None
        found = CODE.search(response.get_data())
        code = (found[1] or found[2]).decode() if found else response.headers.get("x-amzn-ErrorType")
        return response, code or str(response.status_code)


class Handler(WSGIRequestHandler):
    """Serves one connection; logs requests only where that is asked for."""

    verbose = False

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Writes a line for each request."""
        if self.verbose:
            super().log_request(code, size)

    def connection_dropped(self, error: BaseException, environ: dict[str, Any] | None = None) -> None:
        """Reads no further request: the connection is closed for good once the last reader lets it go."""
        self.close_connection = True


def _reset_connection(environ: dict[str, Any]) -> None:
    """Ends the connection without an answer, as a network does."""
    connection = environ["werkzeug.socket"]
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    raise ConnectionResetError("a fault ended the connection")


def new_ca() -> str:
    """A CA of its own for clusters whose real one is not known: valid PEM that signs nothing."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=3650))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM).decode()

