"""States of a cluster as text, to compare what rounds have led to."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any


def as_text(state: object, *, without: Collection[str]) -> str:
    """Return a state as lines, without fields of these names."""
    return json.dumps(_without(state, without), sort_keys=True, indent=1)


def _without(value: Any, names: Collection[str]) -> Any:
    match value:
        case dict():
            return {key: _without(each, names) for key, each in value.items() if key not in names}
        case list():
            return [_without(each, names) for each in value]
        case _:
            return value


def differences(state: str, expected: str) -> str:
    """Return the lines that are there and should not be, and those that are missing; empty for none."""
    found, wanted = state.splitlines(), expected.splitlines()
    surplus = [f"+ {line.strip()}" for line in found if line not in wanted]
    missing = [f"- {line.strip()}" for line in wanted if line not in found]
    return "\n".join(surplus + missing) or ("" if found == wanted else "the same lines in another order")
