"""How much memory machines have and how much of it their kubelets hold back, as people write it.

Pure. ``32Gi/4Gi`` is a machine of 32 GiB whose kubelet holds back 4: its Allocatable is 28.
``32Gi/4Gi/1Gi/512Mi`` says what is in these 4: 1 GiB is the threshold of hard eviction, 512 MiB are reserved
for Kubernetes, the rest is for the system. ``none`` for the threshold: the kubelet does not evict for memory.
Any part may be missing. Whole KiB, so that Capacity minus Allocatable is exactly what was asked for.
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
_MOST_PARTS: Final = 3
"""After the size: all that is held back, and two parts of it."""
_FORM: Final = "a whole number with Ki, Mi or Gi, such as 2548Mi"


class Memory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was asked for, in KiB; None leaves what machines of that kind have."""

    size_ki: int | None = None
    reserved_ki: int | None = None
    eviction_ki: int | None = None
    """Threshold of hard eviction, a part of what is held back; 0: the kubelet does not evict for memory."""
    kube_reserved_ki: int | None = None

    def of(self, hardware: Hardware) -> Hardware:
        """Return the hardware with this memory."""
        if self == USUAL_MEMORY:
            return hardware  # thousands of machines share it
        return replace(
            hardware,
            memory_ki=hardware.memory_ki if self.size_ki is None else self.size_ki,
            reserved_memory_ki=hardware.reserved_memory_ki if self.reserved_ki is None else self.reserved_ki,
            eviction_ki=hardware.eviction_ki if self.eviction_ki is None else self.eviction_ki,
            kube_reserved_ki=self.kube_reserved_ki or 0,
        )

    def but(self, other: Memory) -> Memory:
        """Return the same with what is given in the other in place of what was asked for before."""
        given = msgspec.structs.asdict(other).items()
        return msgspec.structs.replace(self, **{name: size for name, size in given if size is not None})


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
    """Read ``SIZE[/RESERVED[/EVICTION[/KUBE]]]``.

    Raises:
        ValueError: it is not of that form.

    """
    size, *rest = text.split("/")
    if (not size and not any(rest)) or len(rest) > _MOST_PARTS or (rest and not rest[-1]):
        raise ValueError(f"{text!r} is not SIZE[/RESERVED[/EVICTION[/KUBE]]], each {_FORM}")
    reserved, eviction, kube = (*rest, *[""] * (_MOST_PARTS - len(rest)))
    return Memory(
        size_ki=parse_size(size) if size else None,
        reserved_ki=parse_size(reserved) if reserved else None,
        eviction_ki=parse_threshold(eviction) if eviction else None,
        kube_reserved_ki=parse_size(kube) if kube else None,
    )


def parse_threshold(given: Any) -> int:
    """Return KiB; 0 for ``none``.

    Raises:
        ValueError: it is neither a size of memory nor that.

    """
    return 0 if given == "none" else parse_size(given)


Size = Annotated[int, PlainValidator(parse_size)]
"""A field of a model that holds a size of memory; its value is in KiB."""
Threshold = Annotated[int, PlainValidator(parse_threshold)]
"""A field of a model that holds a threshold of eviction; its value is in KiB, 0 for none."""
