"""Answers that do not come from moto: JSON, and errors in the shape that each protocol of AWS has."""

from __future__ import annotations

import json
import uuid
from typing import Any
from xml.sax.saxutils import escape

from werkzeug.wrappers import Response

from .request import Call


def as_json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON document."""
    headers = {"x-amzn-RequestId": str(uuid.uuid4()), **(headers or {})}
    return Response(json.dumps(value), status, headers, content_type="application/json")


def error(call: Call, status: int, code: str, message: str) -> Response:
    """An error, as the SDKs expect it of this service."""
    request = str(uuid.uuid4())
    text, kind = escape(message), "Sender" if status < 500 else "Receiver"
    if call.protocol == "ec2":
        body = (
            f"<Response><Errors><Error><Code>{code}</Code><Message>{text}</Message></Error></Errors>"
            f"<RequestID>{request}</RequestID></Response>"
        )
    elif call.protocol in ("query", "rest-xml"):
        body = (
            f"<ErrorResponse><Error><Type>{kind}</Type><Code>{code}</Code><Message>{text}</Message></Error>"
            f"<RequestId>{request}</RequestId></ErrorResponse>"
        )
    else:
        return as_json({"__type": code, "message": message}, status, {"x-amzn-ErrorType": code})
    return Response(body, status, {"x-amzn-RequestId": request}, content_type="text/xml")
