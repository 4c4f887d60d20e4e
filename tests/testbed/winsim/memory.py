"""How much memory machines have and how much of it their kubelets hold back, as people write it.

Pure. ``32Gi/4Gi`` is a machine of 32 GiB whose kubelet holds back 4: its Allocatable is 28. Either half may
be missing. Whole KiB, so that Capacity minus Allocatable is exactly what was asked for.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from pydantic import PlainValidator

if TYPE_CHECKING:
    from testbed.winsim.machines import Hardware

_SIZE: Final = re.compile(r"(\d{1,10})(Ki|Mi|Gi)")
_KIBIBYTES: Final = {"Ki": 1, "Mi": 1024, "Gi": 1024**2}
_FORM: Final = "a whole number with Ki, Mi or Gi, such as 2548Mi"


class Memory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was asked for, in KiB; None leaves what machines of that kind have."""

    size_ki: int | None = None
    reserved_ki: int | None = None

    def of(self, hardware: Hardware) -> Hardware:
        """Return the hardware with this memory."""
        if self == USUAL_MEMORY:
            return hardware  # thousands of machines share it
        return replace(
            hardware,
            memory_ki=hardware.memory_ki if self.size_ki is None else self.size_ki,
            reserved_memory_ki=hardware.reserved_memory_ki if self.reserved_ki is None else self.reserved_ki,
        )

    def but(self, *, size_ki: int | None, reserved_ki: int | None) -> Memory:
        """Return the same with what is given here in place of what was asked for before."""
        return Memory(
            size_ki=self.size_ki if size_ki is None else size_ki,
            reserved_ki=self.reserved_ki if reserved_ki is None else reserved_ki,
        )


USUAL_MEMORY: Final = Memory()
"""Nothing was asked for."""


def parse_size(given: Any) -> int:
    """Return KiB.

    Raises:
        ValueError: it is no size of memory; the text says what is allowed.

    """
    found = _SIZE.fullmatch(given) if isinstance(given, str) else None
    if found is None:
        raise ValueError(f"{given!r} is not a size of memory: {_FORM}")
    return int(found[1]) * _KIBIBYTES[found[2]]


def parse_memory(text: str) -> Memory:
    """Read ``SIZE``, ``SIZE/RESERVED`` or ``/RESERVED``.

    Raises:
        ValueError: it is not of that form.

    """
    size, slash, reserved = text.partition("/")
    if not size and not reserved:
        raise ValueError(f"{text!r} is not SIZE[/RESERVED], each {_FORM}")
    return Memory(
        size_ki=parse_size(size) if size else None,
        reserved_ki=parse_size(reserved) if slash else None,
    )


Size = Annotated[int, PlainValidator(parse_size)]
"""A field of a model that holds a size of memory; its value is in KiB."""
