"""Reads requests and writes answers by botocore's model, so that no shape is written down twice."""

from __future__ import annotations

import datetime
import re
from typing import Any
from urllib.parse import parse_qs

from botocore.model import OperationModel, Shape, StructureShape

from ..request import Call, match_route, service_model
from .errors import EksError, invalid_parameter


def operation(name: str) -> OperationModel:
    """One operation of the model."""
    return service_model("eks").operation_model(name)


def read_params(call: Call, query: str) -> dict[str, Any]:
    """Parameters by the names of the model, from path, query string and body; checked."""
    shape = operation(call.action).input_shape
    _, labels = match_route("eks", call.method, call.path) or ("", {})
    queried = parse_qs(query, keep_blank_values=True)
    params: dict[str, Any] = {}
    for name, member in (shape.members if shape else {}).items():
        place, key = member.serialization.get("location"), member.serialization.get("name", name)
        if place == "uri" and key in labels:
            params[name] = labels[key]
        elif place == "querystring" and key in queried:
            params[name] = _from_query(member, queried[key])
        elif place is None and call.body.get(key) is not None:
            params[name] = call.body[key]
    if shape:
        _check(shape, params, "")
    return params


def _from_query(shape: Shape, values: list[str]) -> Any:
    if shape.type_name == "list":
        return values
    if shape.type_name == "integer":
        return int(values[-1])
    if shape.type_name == "boolean":
        return values[-1] == "true"
    return values[-1]


def _check(shape: Shape, value: Any, path: str) -> None:
    """Checks required members, lengths, patterns and enumerations."""
    if isinstance(shape, StructureShape):
        for name in shape.required_members:
            if name not in value:
                raise invalid_parameter(f"{path}{name} must not be null.")
        for name, member in shape.members.items():
            if value.get(name) is not None:
                _check(member, value[name], f"{path}{name}.")
        return
    limits, name = shape.metadata, path.rstrip(".")
    if shape.type_name == "list":
        for item in value:
            _check(shape.member, item, path)
    if shape.type_name in ("string", "list", "map"):
        if len(value) < limits.get("min", 0) or len(value) > limits.get("max", len(value)):
            raise invalid_parameter(f"{name} must have a length of {limits.get('min', 0)} to {limits.get('max')}.")
    elif shape.type_name in ("integer", "long"):
        if value < limits.get("min", value) or value > limits.get("max", value):
            raise invalid_parameter(f"{name} must be between {limits.get('min')} and {limits.get('max')}.")
    pattern, enum = limits.get("pattern"), limits.get("enum")
    if shape.type_name == "string" and pattern and not re.fullmatch(pattern.removeprefix("^"), value):
        raise invalid_parameter(f"The value {value!r} of {name} does not match {pattern}.")
    if enum and value not in enum:
        raise invalid_parameter(f"The value {value!r} of {name} is not one of {', '.join(enum)}.")


def written(name: str, answer: dict[str, Any]) -> dict[str, Any]:
    """An answer as JSON. A member that the model does not have is a mistake here, and fails at once."""
    return _written(operation(name).output_shape, answer, name)


def _written(shape: Shape, value: Any, path: str) -> Any:
    if isinstance(shape, StructureShape):
        unknown = set(value) - set(shape.members)
        if unknown:
            raise EksError("ServerException", 500, f"{path} has no {sorted(unknown)}")
        present = {key: item for key, item in value.items() if item is not None}
        return {
            shape.members[key].serialization.get("name", key): _written(shape.members[key], item, f"{path}.{key}")
            for key, item in present.items()
        }
    if shape.type_name == "list":
        return [_written(shape.member, item, path) for item in value]
    if shape.type_name == "map":
        return {key: _written(shape.value, item, path) for key, item in value.items()}
    if isinstance(value, datetime.datetime):
        return value.timestamp()
    return value
