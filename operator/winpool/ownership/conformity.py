"""How a node stands to what is wanted there: the patch that is due, and what people are to be told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.objects.keys import NO_KEYS, Keys

if TYPE_CHECKING:
    from winpool.objects.acts import NodePatch


@dataclass(frozen=True, slots=True)
class Conformity:
    """How a node stands to what is wanted.

    ``patch`` is None when nothing is to be done. ``drifted`` names, for people, what somebody
    changed or removed after we had put it there; ``undone`` the same where it may not be put back now.
    ``unreadable`` says why the record on the node gives no rights; ``lost`` is what stays behind when the
    pool goes, since a record could not be read, now or earlier. ``left_alone`` is what the record names,
    stands there, and is not touched, since the record may be forged; ``is_doubted`` that this is so of all of
    it, since its owner was never seen.
    """

    patch: NodePatch | None = None
    drifted: tuple[str, ...] = ()
    undone: tuple[str, ...] = ()
    unreadable: str = ""
    lost: Keys = NO_KEYS
    left_alone: Keys = NO_KEYS
    is_doubted: bool = False


AS_WANTED: Final = Conformity()
