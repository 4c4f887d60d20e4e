"""What every row of ``matrix.yaml`` has, and the texts and numbers that rows are made of."""

from datetime import date
from typing import Annotated, TypeAlias

import msgspec

MinorText: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[0-9]+\.[0-9]+$")]
RuntimeText: TypeAlias = Annotated[
    str, msgspec.Meta(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+(-(alpha|beta|rc)\.[0-9]+)?$")
]
Build: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
Revision: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """What every row has: its sources, and their date. ``note`` is for people."""

    as_of: date
    source: tuple[str, ...]
    note: str = ""
