"""What is wrong with an object, in sentences that name the field the way ``kubectl`` does."""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

MAP_FIELDS: Final = frozenset({"labels", "matchLabels"})
"""Fields that hold a map: what follows them in a path is a key, written in brackets."""

MAX_PROBLEMS: Final = 10
"""More than a person reads at once; the rest is counted."""

_SENTENCES: Final[Mapping[str, str]] = {
    "missing": "must be given",
    "string_type": "must be a string. Put a number or a boolean in quotes",
    "enum": "must be {expected}",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "dict_type": "must be a map",
    "mapping_type": "must be a map",
    "tuple_type": "must be a list",
    "string_too_long": "must have at most {max_length} characters",
    "too_long": "must have at most {max_length} entries",
    "int_type": "must be a whole number, without quotes",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
}
"""Pydantic's types of error in the words of the API conventions."""


class InvalidSpecError(ValueError):
    """A pool that the operator cannot act on. ``problems`` has a sentence with the path for each fault."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__(" ".join(f"{each}." for each in problems))
        self.problems = problems


def describe(error: ValidationError, *, at: str = "") -> tuple[str, ...]:
    """Return one sentence per fault, such as ``spec.taints[0].key: must be …``, below the path ``at``."""
    faults = error.errors(include_url=False, include_input=False)
    sentences = tuple(
        _sentence(fault["loc"], fault["type"], fault["msg"], fault.get("ctx", {}), at) for fault in faults
    )
    more = len(sentences) - MAX_PROBLEMS
    return (*sentences[:MAX_PROBLEMS], f"there are {more} more faults") if more > 0 else sentences


def _sentence(loc: tuple[int | str, ...], kind: str, msg: str, ctx: Mapping[str, Any], at: str) -> str:
    text = _SENTENCES.get(kind, msg).format_map(ctx) if kind in _SENTENCES else msg
    return f"{path(loc, at=at)}{ctx.get('at', '')}: {text}".removeprefix(".")


def path(loc: tuple[int | str, ...], *, at: str = "") -> str:
    """Return ``("spec", "taints", 0, "key")`` as ``spec.taints[0].key``, below the path ``at``."""
    text, parent = at, ""
    for part in loc:
        if isinstance(part, int) or parent in MAP_FIELDS:
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
        parent = str(part)
    return text
