"""The admission tables as records: manifests with the answer that is expected."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

HERE: Final = Path(__file__).parent

SMALLEST: Final[dict[str, Any]] = {
    "nodeSelector": {"matchLabels": {"agentpool": "win22"}},
    "os": {"version": "2022"},
}


@dataclass(frozen=True, slots=True)
class Accepted:
    """A manifest that is accepted."""

    name: str
    manifest: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Refused:
    """A manifest with one fault. ``by`` is who refuses it: ``rule``, ``schema`` or ``decoder``."""

    name: str
    manifest: dict[str, Any]
    by: str
    field: str
    error: str


def accepted() -> list[Accepted]:
    """Return the table of what is accepted."""
    return [Accepted(entry["name"], _manifest(entry)) for entry in _load("accepted.yaml")]


def refused(*by: str) -> list[Refused]:
    """Return the table of what is refused, whole or only by some."""
    return [
        Refused(entry["name"], _manifest(entry), who, entry["field"], entry["error"])
        for who, entries in _load("refused.yaml").items()
        if who in by or not by
        for entry in entries
    ]


def _load(file: str) -> Any:
    return yaml.load((HERE / file).read_text(), Loader=yaml.CSafeLoader)  # in C: an eighth of the time


def _manifest(entry: dict[str, Any]) -> dict[str, Any]:
    name = "".join(letter if letter.isalnum() else "-" for letter in entry["name"].lower())
    spec = {**SMALLEST, **entry.get("spec", {})}
    return {
        "apiVersion": "winpool.dev/v1alpha1",
        "kind": "WindowsNodePool",
        "metadata": {"name": f"admission-{name}"[:63].rstrip("-"), **entry.get("metadata", {})},
        "spec": _without_nulls(spec),
    }


def _without_nulls(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _without_nulls(value) for key, value in content.items() if value is not None}
    return content
