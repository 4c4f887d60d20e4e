"""The kinds of text and number that the status is made of, with their limits."""

from typing import Annotated, Final

from pydantic import Field

from winpool.api.model import MAX_INT32, MAX_SAFE_INT, Clipped

NodeName = Annotated[str, Clipped(253)]
ReasonText = Annotated[str, Clipped(128)]
SENTENCE: Final = Clipped(1024)
Sentence = Annotated[str, SENTENCE]
Count = Annotated[int, Field(ge=0, le=MAX_INT32)]
Seconds = Annotated[int, Field(ge=0, le=MAX_SAFE_INT)]
"""A time that is computed: thousands of nodes, each with all that it may take, are more than 32 bits."""
