"""What is known of pods, as a part of the snapshot."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from winpool.pods.survey import Survey


@dataclass(frozen=True, slots=True)
class LookProblem:
    """Why the last look at one node failed, for people; ``lasts`` says that the next will fail, too."""

    message: str
    lasts: bool = False


@dataclass(frozen=True, slots=True)
class KnownPods:
    """What looks at pods have found, and why there are no newer ones.

    ``survey`` is what the last look at all pods found about this pool, None where there was none yet;
    ``problem`` is why there is none newer, and ``forbidden`` which right is missing to list pods.
    ``budgets_forbidden`` says which right is missing to list PodDisruptionBudgets, empty where none is known
    to be.
    ``looks`` are the later looks at single nodes, by the name of the node, and ``look_problems`` says, by
    UID, why the last one at a node failed. ``bare_since`` says, by UID, since when a node lacks the NoExecute
    taints that it lacks, as far as seen, in the monotonic seconds of ``Survey.began``.
    """

    survey: Survey | None = None
    problem: str = ""
    forbidden: str = ""
    looks: Mapping[str, Survey] = field(default_factory=dict)
    look_problems: Mapping[str, LookProblem] = field(default_factory=dict)
    bare_since: Mapping[str, float] = field(default_factory=dict)
    budgets_forbidden: str = ""


NOTHING_SEEN: Final = KnownPods()
