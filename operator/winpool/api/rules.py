"""One rule, said twice: in CEL for the API server, in Python for the operator.

A rule stands beside the field it guards, as part of its type. The API server checks the CEL
at ``kubectl apply``; the operator checks the same in Python when it reads an object, since a
stored object can be older than the rule (CRD ratcheting, KEP-4008) or the CRD may have been
replaced. Both answer with the same sentence. Sentences follow the Kubernetes API conventions:
"must …", field names in backticks, literals in single quotes, and what is allowed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

VALIDATIONS: Final = "x-kubernetes-validations"


@runtime_checkable
class Validation(Protocol):
    """What a model or a field can carry: something to ask in Python and to write into the CRD."""

    def check(self, value: Any) -> None:
        """Raise ``PydanticCustomError`` with the sentence for people if ``value`` breaks the rule."""

    def as_cel(self) -> dict[str, str]:
        """Return the entry of ``x-kubernetes-validations``."""


class _Annotation:
    """Lets a rule be written into ``Annotated[...]``: checked after the type, emitted into the schema."""

    __slots__ = ()

    def __get_pydantic_core_schema__(
        self: Validation, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        def obey(value: Any) -> Any:
            self.check(value)
            return value

        return core_schema.no_info_after_validator_function(obey, handler(source))

    def __get_pydantic_json_schema__(
        self: Validation, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        emitted = handler(schema)
        emitted.setdefault(VALIDATIONS, []).append(self.as_cel())
        return emitted


@dataclass(frozen=True, slots=True)
class Rule(_Annotation):
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
class KeyRule(_Annotation):
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
