"""The frozen picture that a pass decides on: nodes, a pool, the time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from winpool.objects.attempts import NOTHING_TRIED, Attempts
from winpool.support.matrix import built_in

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from winpool.objects.keys import Keys
    from winpool.objects.node import Node, NodeCondition
    from winpool.objects.pool import Pool
    from winpool.pods.survey import Survey
    from winpool.support.matrix import Matrix
    from winpool.support.rows import Row


@dataclass(frozen=True, slots=True)
class LookProblem:
    """Why the last look at the pods of one node failed, for people; ``lasts`` says that it will again."""

    message: str
    lasts: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that a pass of one pool decides on.

    ``nodes`` are all Windows nodes, ``rivals`` all other pools, so that two that select the same
    node come to the same answer about whose it is. ``vanished_pools`` are UIDs that name no pool
    any more, known from two complete lists; a UID that is merely unknown is not among them (P4).
    ``attempts`` is what came of earlier writes to nodes, ``written_conditions`` are the conditions that this
    process last wrote to a node, by its UID. ``missing_permission`` says which right the API server says we
    lack, empty where we lack none. ``control_plane`` is the version of the API server in its own words, empty
    where not known.
    ``survey`` is what the last look at all pods found about this pool, None where there was none yet, and
    ``pods_problem`` why there is none newer, for people; ``pods_forbidden`` which right is missing to look.
    ``looks`` are the own looks at single nodes since, by the name of the node, and ``look_problems`` says, by
    UID, why the last one at a node failed. ``bare_since`` says, by UID,
    since when a node has been seen to lack the NoExecute taints that it lacks, in the monotonic seconds of
    ``Survey.began``.
    ``matrix`` is the built-in support matrix, ``cluster_rows`` what the operator's settings put on top of it.
    ``seen_pools`` are the keys that pools have set, by their UIDs: of those that this process has seen, gone
    or not, and that records name.
    ``guard`` identifies the admission policy that keeps kubelets from writing our keys, empty where none is
    in force, and ``guard_problem`` then says why not, for people; ``guard_is_unknown`` that it
    may be in force all the same, and cannot be looked at now.
    """

    pool: Pool
    nodes: tuple[Node, ...]
    rivals: tuple[Pool, ...]
    vanished_pools: frozenset[str]
    now: datetime
    attempts: Attempts = NOTHING_TRIED
    written_conditions: Mapping[str, tuple[NodeCondition, ...]] = field(default_factory=dict)
    missing_permission: str = ""
    control_plane: str = ""
    survey: Survey | None = None
    pods_problem: str = ""
    pods_forbidden: str = ""
    looks: Mapping[str, Survey] = field(default_factory=dict)
    look_problems: Mapping[str, LookProblem] = field(default_factory=dict)
    bare_since: Mapping[str, float] = field(default_factory=dict)
    matrix: Matrix = field(default_factory=built_in)
    cluster_rows: tuple[Row, ...] = ()
    seen_pools: Mapping[str, Keys] = field(default_factory=dict)
    guard: str = ""
    guard_problem: str = ""
    guard_is_unknown: bool = False
