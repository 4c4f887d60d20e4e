"""What can be wrong with the endpoint of a node. Pure."""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec

FaultKind = Literal[
    "hang",
    "slow",
    "trickle",
    "garbage",
    "huge",
    "zeros",
    "nan",
    "overflow",
    "server_error",
    "redirect",
    "frozen",
    "frozen_counters",
    "clock_behind",
    "other_node",
    "unauthorized",
    "forbidden",
    "wrong_certificate",
    "unknown_authority",
]
EndpointName = Literal["kubelet", "exporter"]

ONLY_KUBELET: Final = frozenset(
    ("clock_behind", "other_node", "unauthorized", "forbidden", "wrong_certificate", "unknown_authority")
)
"""Faults that an exporter cannot have: it knows no time, no name, no tokens and no TLS."""
DEFAULT_SECONDS: Final = {"slow": 5.0, "trickle": 1.0, "clock_behind": 3600.0}
"""Before an answer; between two bytes of it; how much the clock is behind."""
HUGE_BYTES: Final = 8 * 1024 * 1024
"""Eight times the most that anybody should read of a summary; still cheap to send."""
GARBAGE: Final = bytes(range(128, 256)) * 16
"""2 KiB that are neither JSON nor text in UTF-8."""

_NUMBERS: Final = {"zeros": b"0", "nan": b"NaN", "overflow": b"9223372036854775808"}
_BYTES_OF_JSON: Final = re.compile(rb'("[a-zA-Z]*Bytes":)\d+')
_SAMPLE: Final = re.compile(rb"^([^#\s][^ ]*(?:\{[^}]*\})?) \S+", re.MULTILINE)


class Fault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fault. ``seconds`` and ``name`` mean what the kind makes of them."""

    kind: FaultKind
    seconds: float = 0.0
    name: str = ""


def is_kind(fault: Fault | None, *kinds: FaultKind) -> bool:
    """Tell whether there is a fault, and it is one of these."""
    return fault is not None and fault.kind in kinds


def spoiled(body: bytes, *, fault: Fault | None, json: bool) -> bytes:
    """Return the body of an answer as a node with this fault sends it."""
    if fault is None:
        return body
    if fault.kind == "garbage":
        return GARBAGE
    if fault.kind == "huge":
        return body + b" " * HUGE_BYTES
    if (number := _NUMBERS.get(fault.kind)) is not None:
        return (_BYTES_OF_JSON.sub if json else _SAMPLE.sub)(
            rb"\g<1>" + (b"" if json else b" ") + number, body
        )
    return body
