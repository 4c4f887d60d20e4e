"""Which value a scalar of a YAML file has for kubectl: YAML 1.1, as sigs.k8s.io/yaml reads it into JSON.

The differences from PyYAML are what people stumble over: ``y`` and ``n`` are booleans, dates stay
texts, ``1e3`` is a number, and a whole number with a fraction of zero becomes a whole number.
Source: the goyaml.v2 package of https://github.com/kubernetes-sigs/yaml, checked against
kubectl 1.36; kubectl 1.37 is built with the same version of it.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from typing import Final

Scalar = str | int | float | bool | None

_TAG: Final = "tag:yaml.org,2002:"
_STR: Final = f"{_TAG}str"
_BINARY: Final = f"{_TAG}binary"
_RESOLVED: Final = {f"{_TAG}{name}": name for name in ("int", "float", "bool", "null")}

_WORDS: Final[dict[str, Scalar]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}

_NO_JSON: Final = re.compile(r"[-+]?[.](inf|Inf|INF)|[.](nan|NaN|NAN)", re.ASCII)
_INTEGER: Final = re.compile(
    r"(?P<sign>[-+]?)(?P<base>0[xX]|0[oO]|0[bB]|0|)(?P<digits>[0-9A-Fa-f]+)", re.ASCII
)
_BASES: Final = {"0x": 16, "0o": 8, "0b": 2, "0": 8, "": 10}
_FLOAT: Final = re.compile(r"[-+]?([.][0-9]+|[0-9]+([.][0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)

_INTEGERS: Final = range(-(2**63), 2**64)
"""What Go keeps as an integer; beyond it a number is a float64."""
_WHOLE_BELOW: Final = 1e21
"""From here on Go writes a float into JSON with an exponent, and it is no whole number any more."""


class ScalarError(ValueError):
    """A scalar that has no form in JSON, or not the one that its tag asks for."""


def resolve(text: str, *, tag: str | None, plain: bool) -> Scalar:
    """Return the value of the scalar ``text``: ``plain`` without quotes, ``tag`` where the file gives one.

    Raises ScalarError.
    """
    if tag == _BINARY:
        return _decoded(text)
    if tag in _RESOLVED:
        value = _resolve_plain(text)
        if _fits(value, _RESOLVED[tag]):
            return value
        raise ScalarError(f"{text!r} is not of the type {_RESOLVED[tag]}")
    # A tag that nobody knows makes a text, and so do quotes.
    return _resolve_plain(text) if plain and tag is None else text


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=False).decode("utf-8", errors="replace")
    except binascii.Error as error:
        raise ScalarError(f"!!binary is not base64: {error}") from None


def _fits(value: Scalar, kind: str) -> bool:
    match kind:
        case "bool":
            return isinstance(value, bool)
        case "null":
            return value is None
        case "int":
            return isinstance(value, int) and not isinstance(value, bool)
        case _:
            return isinstance(value, int | float) and not isinstance(value, bool)


def _resolve_plain(text: str) -> Scalar:
    if text in _WORDS:
        return _WORDS[text]
    if _NO_JSON.fullmatch(text):
        raise ScalarError(f"{text} does not exist in JSON: write it in quotes as a string")
    if text[0] not in "+-.0123456789":
        return text
    # Underscores may stand between digits, but not in what begins with a point.
    number = text if text[0] == "." else text.replace("_", "")
    return _number(number, otherwise=text)


def _number(number: str, *, otherwise: str) -> Scalar:
    if found := _INTEGER.fullmatch(number):
        try:
            value = int(found["sign"] + found["digits"], _BASES[found["base"].lower()])
        except ValueError:
            pass  # such as 08, which is a float, or 0o8, which is a text
        else:
            if value in _INTEGERS:
                return value
    if _FLOAT.fullmatch(number) and math.isfinite(real := float(number)):
        return int(real) if real.is_integer() and abs(real) < _WHOLE_BELOW else real
    return otherwise
