"""YAML and its faults, for the packaged data and for the cluster-wide file.

It is read as ``kubectl`` reads it: a date stays the text that was written. A key that is there twice is
refused, since one of the two would be lost without a notice.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
import yaml

if TYPE_CHECKING:
    from collections.abc import Hashable

    from yaml import CSafeLoader as _InC
else:
    _InC = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # PyYAML can be built without libyaml

_T = TypeVar("_T")

_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"
_AT: Final = re.compile(r"^(?P<what>.*?) - at `\$(?P<path>.*)`$", re.DOTALL)
_EXPECTED: Final = re.compile(r"^Expected `(?P<wanted>[^`]*)`, got `(?P<found>[^`]*)`$")

_TAG_ERRORS: Final = (ValueError, KeyError, IndexError, AttributeError, TypeError)
"""What PyYAML raises where a tag and its value do not fit: ``!!bool maybe``, ``!!int ""``."""

_WORDS: Final = {
    "object": "a map",
    "array": "a list",
    "str": "a text",
    "int": "a whole number",
    "null": "nothing",
    "bool": "true or false",
    "float": "a fraction",
}
"""The types of msgspec, as they are called in sentences for people."""


class DataError(ValueError):
    """Data that cannot be used. ``problems`` has a sentence for each fault that says where it is."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class _Strict(yaml.constructor.SafeConstructor):
    """Keys that are there twice are an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Build the mapping of ``node``."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key.value!r} is there twice", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


_WITHOUT_DATES = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class _Loader(_Strict, yaml.SafeLoader):
    """The safe loader without dates, and without keys that are there twice."""

    yaml_implicit_resolvers = _WITHOUT_DATES


class _QuickLoader(_Strict, _InC):
    """The same in C: it takes a sixth of the time, but deep nesting ends the process."""

    yaml_implicit_resolvers = _WITHOUT_DATES


def read(text: str, kind: type[_T], *, trusted: bool = False) -> _T:
    """Read YAML as ``kind``. Raises DataError with a sentence that names the line or the field.

    ``trusted`` is for data of our own, which is large: what users write is read by the slower, safe loader.
    """
    try:
        content = (_QuickLoader if trusted else _Loader)(text).get_single_data()
    except RecursionError:
        raise DataError(("it is nested too deeply to be read",)) from None
    except (yaml.YAMLError, *_TAG_ERRORS) as error:
        raise DataError((_of_yaml(error),)) from None
    return convert(content, kind)


def convert(content: Any, kind: type[_T]) -> _T:
    """Convert ``content``, as read from YAML or JSON, to ``kind``. Raises DataError with the field."""
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise DataError((_of_schema(str(error)),)) from None
    except RecursionError:
        raise DataError(("it is nested too deeply to be read",)) from None


def _of_yaml(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    what = getattr(error, "problem", None) or str(error)
    return f"line {mark.line + 1}: {what}" if mark is not None else f"not YAML: {what}"


def _of_schema(text: str) -> str:
    found = _AT.match(text)
    what, path = (found["what"], found["path"].removeprefix(".")) if found else (text, "")
    if expected := _EXPECTED.match(what):
        wanted, got = expected["wanted"], expected["found"]
        what = f"must be {_words(wanted)}, not {_words(got)}"
        if wanted == "str" and got in ("int", "float"):
            what = "must be a text: put it in quotes, or 1.30 becomes 1.3"
    return f"{path}: {what}" if path else what


def _words(types: str) -> str:
    return " or ".join(_WORDS.get(each, each) for each in types.split(" | "))
