"""The ground every API model stands on, and the markers that only Kubernetes knows.

How defaults are written decides where they live:

- ``Field(default=…)`` is a schema default: the API server stores it in the object, for ever.
- ``Field(default_factory=…)`` is only what Python sees where the object says nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from winpool.api.moments import written_moment
from winpool.api.rules import VALIDATIONS, Validation
from winpool.api.text import printable

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
        if cls.rules:
            handler.resolve_ref_schema(emitted)[VALIDATIONS] = [rule.as_cel() for rule in cls.rules]
        return emitted


@dataclass(frozen=True, slots=True)
class ListType:
    """How server-side apply merges a list: ``atomic``, ``set``, or ``map`` by ``keys``."""

    kind: str
    keys: tuple[str, ...] = ()

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


@dataclass(frozen=True, slots=True)
class Clipped:
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
