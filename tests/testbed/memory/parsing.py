"""Reads a workload from the text of an annotation, or from a part of a scenario."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from testbed.memory.workloads import WORKLOADS, Workload

_NAME: Final = "workload"
_LONGEST: Final = 4096
"""No script needs a tenth of it."""


class WorkloadError(ValueError):
    """A workload has mistakes. The text has one line for each, with the name of the field."""


def parse_workload(text: str, *, where: str) -> Workload:
    """Read a workload from JSON.

    Args:
        text: such as ``{"workload": "steady", "commit": "1Gi"}``.
        where: what the text is, put before every mistake, such as the key of an annotation.

    Raises:
        WorkloadError: it has mistakes; all are named at once.

    """
    if len(text) > _LONGEST:
        raise WorkloadError(f"{where}: {len(text)} characters are more than {_LONGEST}")
    try:
        content = json.loads(text, object_pairs_hook=_without_repetition, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise WorkloadError(f"{where}: not JSON that can be read: {error}") from error
    return workload_of(content, where=where)


def workload_of(content: Any, *, where: str) -> Workload:
    """Read a workload from what JSON or YAML became.

    Raises:
        WorkloadError: it has mistakes; all are named at once.

    """
    if not isinstance(content, Mapping):
        raise WorkloadError(
            f'{where}: write a map of fields, such as {{"workload": "steady", "commit": "1Gi"}}'
        )
    name = content.get(_NAME)
    model = WORKLOADS.get(name) if isinstance(name, str) else None
    if model is None:
        given = f"there is no {str(name)[:40]!r}" if _NAME in content else "it is missing"
        raise WorkloadError(f"{where}: {_NAME}: {given}; write one of {', '.join(WORKLOADS)}")
    fields = {key: value for key, value in content.items() if key != _NAME}
    try:
        return model.model_validate(fields, by_alias=True, by_name=False)
    except ValidationError as error:
        raise WorkloadError("\n".join(_mistakes(error, model=model, where=where))) from error


def _mistakes(error: ValidationError, *, model: type[Workload], where: str) -> list[str]:
    found = []
    for each in error.errors(include_url=False):
        field = ": ".join([where, *(str(part)[:40] for part in each["loc"])])
        match each["type"]:
            case "missing":
                found.append(f"{field}: it is missing")
            case "extra_forbidden":
                names = ", ".join([_NAME, *(str(field.alias) for field in model.model_fields.values())])
                found.append(f"{field}: there is no such field; there are {names}")
            case "value_error":
                found.append(f"{field}: {each['ctx']['error']}")
            case _:
                message = each["msg"][0].lower() + each["msg"][1:]
                found.append(f"{field}: {str(each['input'])[:40]}: {message}")
    return found


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the field {key[:40]!r} is given twice")
        found[key] = value
    return found


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no number of JSON")
