"""The kinds of text and number that the status is made of, with their limits."""

from typing import Annotated

from pydantic import Field

from winpool.api.model import MAX_INT32, Clipped

NodeName = Annotated[str, Clipped(253)]
ReasonText = Annotated[str, Clipped(128)]
Sentence = Annotated[str, Clipped(1024)]
Count = Annotated[int, Field(ge=0, le=MAX_INT32)]
