"""Errors of EKS."""

from __future__ import annotations


class EksError(Exception):
    """An answer that is an error."""

    def __init__(self, code: str, status: int, message: str, **fields: str) -> None:
        super().__init__(message)
        self.code, self.status, self.message, self.fields = code, status, message, fields


def not_found(message: str, **fields: str) -> EksError:
    """Something that is named does not exist."""
    return EksError("ResourceNotFoundException", 404, message, **fields)


def in_use(message: str, **fields: str) -> EksError:
    """Something exists already, or is busy."""
    return EksError("ResourceInUseException", 409, message, **fields)


def invalid_parameter(message: str, **fields: str) -> EksError:
    """A parameter cannot be taken."""
    return EksError("InvalidParameterException", 400, message, **fields)


def invalid_request(message: str, **fields: str) -> EksError:
    """The request does not fit the state of things."""
    return EksError("InvalidRequestException", 400, message, **fields)
