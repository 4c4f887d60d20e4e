"""Types that many fields share: keys and values of labels, Windows releases, times, with their rules."""

from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticKnownError

from winpool.api import syntax
from winpool.api.model import MAX_INT32, Timestamp
from winpool.api.moments import read_moment
from winpool.api.rules import VALIDATIONS, KeyRule, Rule

# Where a CEL rule has the better sentence, the schema's own length limit is wider than the
# rule's: a text that is too long for the schema switches CEL off altogether.
_WIDE_KEY: Final = 512
_WIDE_VALUE: Final = 253
_WIDE_RELEASE: Final = 64
_WIDE_TIME: Final = 64


def _is_key(subject: str) -> str:
    """Return the CEL that says of ``subject`` what ``syntax.is_key`` says in Python."""
    return (
        f"{subject}.matches('{syntax.KEY_PATTERN}') && {subject}.indexOf('/') <= {syntax.MAX_PREFIX_LENGTH}"
    )


_KEY_SENTENCE: Final = (
    "must be a key of letters, digits, '-', '_' and '.', at most 63, beginning and ending with a letter "
    "or digit, with an optional DNS prefix and '/', such as 'os' or 'example.com/os'"
)
KEY_SYNTAX: Final = Rule(_is_key("self"), _KEY_SENTENCE, syntax.is_key)
EACH_KEY_SYNTAX: Final = KeyRule(_is_key("k"), _KEY_SENTENCE, syntax.is_key)
VALUE_SYNTAX: Final = Rule(
    f"self.matches('{syntax.VALUE_PATTERN}')",
    "must be empty or at most 63 letters, digits, '-', '_' and '.', "
    "beginning and ending with a letter or digit",
    syntax.is_label_value,
)
LabelKey = Annotated[str, Field(max_length=_WIDE_KEY), KEY_SYNTAX]
LabelValue = Annotated[str, Field(max_length=_WIDE_VALUE), VALUE_SYNTAX]

WindowsRelease = Annotated[
    str,
    Field(max_length=_WIDE_RELEASE),
    Rule(
        f"self.matches('{syntax.OS_VERSION_PATTERN}')",
        "must be a Windows Server release, in quotes, such as '2019', '2022', '2025' or '23H2'",
        syntax.is_os_version,
    ),
]

Revision = Annotated[int, Field(strict=True, ge=0, le=MAX_INT32)]
"""The last number of a Windows version: 32 bits in its registry (UBR), and above 32767 in the field."""


def is_spec_time(subject: str) -> str:
    """Return the CEL that says of ``subject`` what ``syntax.is_moment`` says in Python."""
    return (
        f"{subject}.matches('{syntax.MOMENT_PATTERN}') && "
        f"!format.date().validate({subject}.substring(0, 10)).hasValue()"
    )


_SPEC_TIME: Final = Rule(
    is_spec_time("self"),
    "must be a time of RFC 3339 that exists, in the years 2000 to 2999, such as '2026-12-01T00:00:00Z'",
    syntax.is_moment,
)


def _read_time(value: Any) -> Any:
    if isinstance(value, str):
        _SPEC_TIME.check(value)
        return read_moment(value)
    if isinstance(value, bool | int | float) or value is None:
        raise PydanticKnownError("string_type")
    return value


SpecTime = Annotated[
    Timestamp,
    BeforeValidator(_read_time),
    WithJsonSchema({"type": "string", "maxLength": _WIDE_TIME, VALIDATIONS: [_SPEC_TIME.as_cel()]}),
]
"""A time that users write. A string in the schema: of the format date-time the API server checks less, and
says only that it is none."""


def under(domains: tuple[str, ...]) -> str:
    """Return an RE2 pattern for keys under one of ``domains`` or under a subdomain."""
    return f"^([a-z0-9.-]+[.])?({'|'.join(domain.replace('.', '[.]') for domain in domains)})/"
