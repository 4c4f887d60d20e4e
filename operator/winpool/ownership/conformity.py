"""How a node compares with what is wanted there: the patch that is due, and what is reported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.objects.keys import NO_KEYS, Keys

if TYPE_CHECKING:
    from winpool.objects.acts import NodePatch


@dataclass(frozen=True, slots=True)
class Conformity:
    """How a node compares with what is wanted.

    ``patch`` is None when nothing is to be done. ``drifted`` names, for people, what someone changed or
    removed after we had set it; ``undone`` the same where it may not be restored now. ``unreadable`` says why
    the record on the node gives no rights. ``lost`` is what stays on the node when the pool is deleted, since
    a record could not be read, now or earlier. ``left_alone`` is what the record names and the node has, and
    what is not changed, since the record may be forged; ``is_doubted`` says that this holds for the whole
    record, since its owner was never seen.
    """

    patch: NodePatch | None = None
    drifted: tuple[str, ...] = ()
    undone: tuple[str, ...] = ()
    unreadable: str = ""
    lost: Keys = NO_KEYS
    left_alone: Keys = NO_KEYS
    is_doubted: bool = False


AS_WANTED: Final = Conformity()
