"""The kinds of text and number that the status is made of, with their limits."""

from typing import Annotated, Final

from pydantic import Field

from winpool.api.model import MAX_INT32, Clipped

NodeName = Annotated[str, Clipped(253)]
ReasonText = Annotated[str, Clipped(128)]
SENTENCE: Final = Clipped(1024)
Sentence = Annotated[str, SENTENCE]
Count = Annotated[int, Field(ge=0, le=MAX_INT32)]
