"""Orders verdicts and their reasons, the answer of every lookup of the support matrix."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec

from winpool.api.matrix import Verdict


class Layer(StrEnum):
    """Which layer decided: the data of the package, the cluster-wide file, or the pool."""

    BUILT_IN = "BuiltIn"
    CLUSTER = "Cluster"
    POOL = "Pool"

    @property
    def rows(self) -> str:
        """The rows of this layer, in words for people."""
        return _ROWS[self]


_ROWS: Final = {
    Layer.BUILT_IN: "the built-in support matrix",
    Layer.CLUSTER: "the operator's --support-matrix-file",
    Layer.POOL: "the pool",
}


class Reason(msgspec.Struct, frozen=True, gc=False):
    """One reason of a verdict.

    ``message`` says, in sentences, what is so and where; ``fix`` what to do about it, empty where there is
    nothing to be done. ``layer`` is the one that decided. ``cause`` is what nodes have in common where
    the message quotes a text that each may have of its own; where it is empty the message is.
    """

    code: str
    verdict: Verdict
    message: str
    fix: str = ""
    layer: Layer = Layer.BUILT_IN
    cause: str = ""

    @property
    def text(self) -> str:
        """Message and fix."""
        return f"{self.message} {self.fix}" if self.fix else self.message


_FROM_BEST: Final = tuple(Verdict)
"""Unknown is worse than Warned, since it blocks upgrades, and better than Unsupported: what is known to be
unsupported stays so when other information is missing. Missing information alone is never Unsupported
(P4)."""


def worst(reasons: Iterable[Reason]) -> Verdict:
    """Return the worst verdict among ``reasons``; Supported where there is none."""
    return max((each.verdict for each in reasons), key=_FROM_BEST.index, default=Verdict.SUPPORTED)


def sorted_reasons(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    """Return ``reasons``, the worst first, and in the given order where they are equally bad."""
    return tuple(sorted(reasons, key=lambda each: -_FROM_BEST.index(each.verdict)))
