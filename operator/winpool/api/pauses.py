"""Requests that no upgrade begins: each owner has one of its own, and withdraws it by itself."""

from typing import Annotated, Final

from pydantic import Field

from winpool.api import syntax
from winpool.api.gates import MAX_REASON
from winpool.api.model import ApiModel
from winpool.api.rules import Rule

MAX_PAUSE_REQUESTS: Final = 16
"""Owners of a request: teams and programs that watch one pool."""

_WIDE: Final = 512


class PauseRequest(ApiModel):
    """A request of one owner that no upgrade begins."""

    owner: Annotated[
        str,
        Field(max_length=_WIDE),
        Rule(
            f"self.matches('^{syntax.NAME_PATTERN}$')",
            "must be at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or "
            "digit, such as 'sre'",
            lambda owner: bool(owner) and syntax.is_label_value(owner),
        ),
    ] = Field(description="Who requests it: a team or a program. A string, required, once per list.")
    reason: str = Field(
        default_factory=str,
        max_length=MAX_REASON,
        description="Why no upgrade may begin. A string of at most 256 characters, empty if absent.",
    )
