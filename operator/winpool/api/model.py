"""The base of all API models: rules in CEL and Python, marks for the schema, errors as kubectl prints them.

A rule stands beside the field it guards, as part of its type. The API server checks the CEL
at ``kubectl apply``; the operator checks the same in Python when it reads an object, since a
stored object can be older than the rule (CRD ratcheting, KEP-4008) or the CRD may have been
replaced. Both answer with the same sentence. Sentences follow the Kubernetes API conventions:
"must …", field names in backticks, literals in single quotes, and what is allowed.

Where a rule limits a text too and has the better sentence, ``max_length`` of its field is wider than the
rule: a text that is too long for the schema switches CEL off altogether.

How defaults are written decides where they live:

- ``Field(default=…)`` is a schema default: the API server stores it in the object, for ever.
- ``Field(default_factory=…)`` is only what Python sees where the object says nothing.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Final, Protocol, Self

import msgspec
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel, to_snake
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from winpool.api.text import printable, written_moment

VALIDATIONS: Final = "x-kubernetes-validations"


class Validation(Protocol):
    """Something to ask in Python and to write into the CRD.

    In ``Annotated[...]`` it is checked after the type, and emitted into the schema.
    """

    __slots__ = ()

    def check(self, value: Any) -> None:
        """Raise ``PydanticCustomError`` with the sentence for people if ``value`` breaks the rule."""

    def as_cel(self) -> dict[str, str]:
        """Return the entry of ``x-kubernetes-validations``."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def obey(value: Any) -> Any:
            self.check(value)
            return value

        return core_schema.no_info_after_validator_function(obey, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        emitted = handler(schema)
        emitted.setdefault(VALIDATIONS, []).append(self.as_cel())
        return emitted


@dataclass(frozen=True, slots=True)
class Rule(Validation):
    """What must hold for a value: ``cel`` about ``self``, ``holds`` about the same value in Python.

    ``at`` is the path below the value that the error shall name, such as ``.values``; the API
    server takes neither list indices nor map keys there. ``cel`` uses only what Kubernetes 1.32
    offers, and regular expressions that RE2 and Python read alike.
    """

    cel: str
    message: str
    holds: Callable[[Any], bool]
    at: str = ""

    def check(self, value: Any) -> None:
        """Raise ``PydanticCustomError`` with the sentence for people if ``value`` breaks the rule."""
        if not self.holds(value):
            raise broken(self.message, at=self.at)

    def as_cel(self) -> dict[str, str]:
        """Return the entry of ``x-kubernetes-validations``."""
        entry = {"rule": self.cel, "message": self.message}
        return {**entry, "fieldPath": self.at} if self.at else entry


@dataclass(frozen=True, slots=True)
class KeyRule(Validation):
    """What must hold for every key of a map; the error names the first key that breaks it.

    ``cel`` speaks of one key ``k``. The schema cannot bound the length of keys, so the message
    takes one key by ``filter``: joining them would go over the API server's cost limit.
    """

    cel: str
    message: str
    holds: Callable[[str], bool]

    def __post_init__(self) -> None:
        assert '"' not in self.message
        assert "\\" not in self.message

    def check(self, value: Mapping[str, Any]) -> None:
        """Raise ``PydanticCustomError`` with the sentence for people if a key breaks the rule."""
        for key in value:
            if not self.holds(key):
                raise broken(f"key '{key}' {self.message}")

    def as_cel(self) -> dict[str, str]:
        """Return the entry of ``x-kubernetes-validations``."""
        return {
            "rule": f"self.all(k, {self.cel})",
            "messageExpression": f'"key \'" + self.filter(k, !({self.cel}))[0] + "\' {self.message}"',
            "message": f"a key {self.message}",
        }


def broken(message: str, *, at: str = "") -> PydanticCustomError:
    """Return the error of a broken rule: ``message`` as it stands, at the path ``at`` below the value."""
    return PydanticCustomError("rule", "{message}", {"message": message, "at": at})


def cel_list(texts: tuple[str, ...]) -> str:
    """Return ``texts`` as a CEL list of strings."""
    return "[" + ", ".join(f"'{text}'" for text in texts) + "]"


MAX_INT32: Final = 2**31 - 1
MAX_SAFE_INT: Final = 2**53 - 1
"""The largest integer that every JSON reader keeps; the API server refuses 2**63 - 1 as a bound."""


class ApiModel(BaseModel):
    """A part of an API object: frozen, camelCase outside, unknown fields ignored when read.

    Fields of a newer version are ignored, not refused: an older operator must keep working.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        # A start of the plugin makes none of most models, and to build them all takes a quarter of a second.
        defer_build=True,
    )

    rules: ClassVar[tuple[Validation, ...]] = ()
    """Rules about more than one field."""

    @model_validator(mode="after")
    def _obey_rules(self) -> Self:
        for rule in self.rules:
            rule.check(self)
        return self

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        emitted = handler(schema)
        resolved = handler.resolve_ref_schema(emitted)
        for name, text in descriptions(cls).items():
            resolved["properties"][cls.model_fields[name].alias]["description"] = text
        if cls.rules:
            resolved[VALIDATIONS] = [rule.as_cel() for rule in cls.rules]
        return emitted


def descriptions(model: type[ApiModel]) -> Mapping[str, str]:
    """Return the docstrings of the fields of ``model`` by name, each as one line.

    They are read from the source when a schema is made: pydantic's ``use_attribute_docstrings`` would
    read it at each start of the operator.
    """
    inherited = [descriptions(base) for base in model.__bases__ if issubclass(base, ApiModel)]
    return {name: text for texts in inherited for name, text in texts.items()} | {
        name: text for name, text in docstrings(model).items() if name in model.model_fields
    }


def docstrings(described: type) -> Mapping[str, str]:
    """Return the docstrings of what stands in a class, such as the members of an enum, each as one line."""
    return _docstrings(described.__module__)[described.__name__]


@cache
def _docstrings(module: str) -> Mapping[str, Mapping[str, str]]:
    """Return the docstrings in the classes of a module, by class and name. Each module is parsed once."""
    return {
        described.name: {
            target.id: " ".join(text.value.value.split())
            for each, text in pairwise(described.body)
            if isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
            and isinstance(text.value.value, str)
            for target in _targets(each)
            if isinstance(target, ast.Name)
        }
        for described in ast.parse(inspect.getsource(sys.modules[module])).body
        if isinstance(described, ast.ClassDef)
    }


def _targets(statement: ast.stmt) -> Sequence[ast.expr]:
    """Return what a statement assigns to: fields have a type, members of an enum have none."""
    if isinstance(statement, ast.AnnAssign):
        return [statement.target]
    return statement.targets if isinstance(statement, ast.Assign) else []


class ListType(msgspec.Struct, frozen=True):
    """How server-side apply merges a list: ``atomic``, ``set``, or ``map`` by ``keys``."""

    kind: str
    keys: tuple[str, ...] = ()

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        return core_schema.no_info_after_validator_function(self._unique, schema) if self.keys else schema

    def _unique(self, items: Sequence[Any]) -> Sequence[Any]:
        """Refuse two items with the same keys, as the API server does."""
        names = tuple(map(to_snake, self.keys))
        seen: set[tuple[Any, ...]] = set()
        for index, item in enumerate(items):
            identity = tuple(getattr(item, name) for name in names)
            if identity in seen:
                told = ", ".join(f"{key}: {value}" for key, value in zip(self.keys, identity, strict=True))
                raise broken(
                    f"must not have the same {' and '.join(self.keys)} twice ({told})", at=f"[{index}]"
                )
            seen.add(identity)
        return items

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        emitted = handler(schema)
        emitted["x-kubernetes-list-type"] = self.kind
        if self.keys:
            emitted["x-kubernetes-list-map-keys"] = list(self.keys)
        return emitted


ATOMIC: Final = ListType("atomic")
"""One owner for the whole list."""


def list_map(*keys: str) -> ListType:
    """Return the marker of a list whose items are told apart by ``keys``, each item with an owner."""
    return ListType("map", keys)


class Clipped(msgspec.Struct, frozen=True):
    """Cuts a text or a list of the status to ``limit`` characters or items, and makes a text printable.

    The API server refuses a whole status write for one text that is too long, and what people
    need most when something goes wrong is the status. Half of its texts are somebody else's: of a spec,
    a kubelet, a server. So every text of the status goes through here, whoever brings it.
    """

    limit: int

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self.clip, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        emitted = handler(schema)
        emitted["maxItems" if emitted["type"] == "array" else "maxLength"] = self.limit
        return emitted

    def clip(self, value: Any) -> Any:
        """Return ``value``, printable, cut where it is longer than the limit; a cut text ends in '…'."""
        if isinstance(value, str):
            value = printable(value)
            return value if len(value) <= self.limit else value[: self.limit - 1] + "…"
        if isinstance(value, Sequence):
            return value[: self.limit]
        return value


def _to_whole_second(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC).replace(microsecond=0)
    except OverflowError:
        raise ValueError("must be a time between the years 1 and 9999 in UTC") from None


Timestamp = Annotated[
    AwareDatetime,
    AfterValidator(_to_whole_second),
    PlainSerializer(written_moment, return_type=str, when_used="json"),
]
"""A time as the API server keeps it: UTC, whole seconds, so that what is read back compares equal."""


NodeName = Annotated[str, Clipped(253)]
ReasonText = Annotated[str, Clipped(128)]
SENTENCE: Final = Clipped(1024)
Sentence = Annotated[str, SENTENCE]
Count = Annotated[int, Field(ge=0, le=MAX_INT32)]
Seconds = Annotated[int, Field(ge=0, le=MAX_SAFE_INT)]
"""A time that is computed: thousands of nodes, each with all that it may take, are more than 32 bits."""


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
    "extra_forbidden": "is an unknown field",
}
"""Pydantic's types of error in the words of the API conventions."""


class InvalidSpecError(ValueError):
    """A pool that the operator cannot act on. ``problems`` has a sentence with the path for each fault."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__(" ".join(f"{each}." for each in problems))
        self.problems = problems


def describe(error: ValidationError, *, at: str = "") -> tuple[str, ...]:
    """Return the sentences of ``sentences``, but only as many as a person reads at once."""
    found = tuple(sentences(error, at=at))
    more = len(found) - MAX_PROBLEMS
    return (*found[:MAX_PROBLEMS], f"there are {more} more faults") if more > 0 else found


def sentences(error: ValidationError, *, at: str = "") -> Iterator[str]:
    """Yield one sentence per fault, such as ``spec.taints[0].key: must be …``, below the path ``at``."""
    for fault in error.errors(include_url=False, include_input=False):
        kind, context = fault["type"], fault.get("ctx", {})
        text = _SENTENCES[kind].format_map(context) if kind in _SENTENCES else fault["msg"]
        yield f"{path(fault['loc'], at=at)}{context.get('at', '')}: {text}".removeprefix(".")


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
