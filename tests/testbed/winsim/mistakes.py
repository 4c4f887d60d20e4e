"""Mistakes in what people write, as sentences: where it is, what is wrong, what is allowed."""

from collections.abc import Iterator
from typing import Final

from pydantic import BaseModel, ValidationError

_WORDS: Final = {
    "missing": "is missing",
    "int_type": "is not a whole number",
    "int_parsing": "is not a whole number",
    "string_type": "is not a text",
    "bool_type": "is neither true nor false",
    "bool_parsing": "is neither true nor false",
    "dict_type": "is not a map of names to values",
    "tuple_type": "is not a list",
}


def sentences(error: ValidationError, *, model: type[BaseModel], where: str) -> Iterator[str]:
    """Say every mistake that validation found.

    Args:
        error: what it found.
        model: what was validated against.
        where: name of the whole, put before the name of the field.

    """
    for each in error.errors(include_url=False):
        path = ".".join([where, *(str(part) for part in each["loc"] if not isinstance(part, int))])
        match each["type"]:
            case "extra_forbidden":
                yield f"{path}: there is no such field; there are: {', '.join(model.model_fields)}"
            case "model_type" | "model_attributes_type" | "json_invalid" | "json_type":
                yield f"{where}: {each['input']!r} is not a map of fields; there are: " + ", ".join(
                    model.model_fields
                )
            case "value_error":
                yield f"{path}: {each['ctx']['error']}"
            case kind if kind in _WORDS:
                given = "" if kind == "missing" else f"{each['input']!r} "
                yield f"{path}: {given}{_WORDS[kind]}{_description(model, each['loc'])}"
            case _:
                yield f"{path}: {each['input']!r}: {each['msg'][0].lower()}{each['msg'][1:]}"


def _description(model: type[BaseModel], location: tuple[int | str, ...]) -> str:
    field = model.model_fields.get(str(location[0])) if location else None
    return f" ({field.description})" if field is not None and field.description else ""
