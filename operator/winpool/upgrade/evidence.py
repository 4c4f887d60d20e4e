"""What is known of the pods of a pool's nodes: one list of all pods, young enough, for the spec as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.api.moments import later
from winpool.pods.evidence import current_survey

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from winpool.objects.node import Node
    from winpool.pods.survey import Survey
    from winpool.pods.workloads import Workload
    from winpool.snapshot import Snapshot

MAX_AGE_SECONDS: Final = 900.0
"""How old a list of all pods may be to permit an upgrade. There is one every ten minutes, which takes up to a
minute; one may fail."""

ASKS_AFTER_SECONDS: Final = 720.0
"""How old a list may become before another is asked for. By default one comes before that. Where the setting
--pod-pass-seconds makes lists rarer, no permission ends only because the last one is too old."""


@dataclass(frozen=True, slots=True)
class WorkloadEvidence:
    """What runs on nodes, as far as it is known. ``survey`` is None where nothing is."""

    survey: Survey | None = None
    workloads: Mapping[str, Workload] | None = None

    def of(self, node: Node) -> Workload | None:
        """Return what runs on this very node; None where it is not known."""
        if self.survey is None or self.workloads is None or not self.survey.saw(node):
            return None
        return self.workloads.get(node.name)

    def covers(self, node: Node) -> bool:
        """Whether it is about this very node, so that a newer list of pods would say no more."""
        return self.survey is not None and self.survey.saw(node)

    @property
    def expires_at(self) -> datetime | None:
        """When it becomes too old; None where there is none."""
        return later(self.survey.started, MAX_AGE_SECONDS) if self.survey else None

    @property
    def asks_at(self) -> datetime | None:
        """When a newer one is to be asked for; None where there is none."""
        return later(self.survey.started, ASKS_AFTER_SECONDS) if self.survey else None


NO_EVIDENCE: Final = WorkloadEvidence()


def evidence_of(snapshot: Snapshot) -> WorkloadEvidence:
    """Return what the last list of all pods says of the pool, if it is young enough."""
    survey = current_survey(snapshot)
    if survey is None or survey.workloads is None:
        return NO_EVIDENCE
    found = WorkloadEvidence(survey, survey.workloads)
    expires_at = found.expires_at
    # One from the future is none: a clock was set back.
    is_young = survey.started <= snapshot.now and expires_at is not None and snapshot.now < expires_at
    return found if is_young else NO_EVIDENCE
