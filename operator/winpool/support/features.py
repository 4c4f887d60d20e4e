"""Which features work on Windows in a minor, and since when: ``features`` of ``matrix.yaml``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from winpool.support.versions import Minor, parse_minor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from winpool.support.data import Feature
    from winpool.support.matrix import Matrix


class FeatureStage(StrEnum):
    """How far a feature is in one minor."""

    ABSENT = "absent"
    ALPHA = "alpha"
    BETA = "beta"
    STABLE = "stable"
    REMOVED = "removed"
    UNKNOWN = "unknown"
    """The minor is not in the data, or was not out when it was read."""


@dataclass(frozen=True, slots=True)
class FeatureEntry:
    """A feature in one minor: its stage there, and since which minor; None where it has none."""

    feature: Feature
    stage: FeatureStage
    since: Minor | None


def stages_of(feature: Feature) -> tuple[tuple[FeatureStage, Minor], ...]:
    """Return the stages of ``feature`` with the minor that each begins in, the oldest first."""
    written = (
        (FeatureStage.ALPHA, feature.alpha),
        (FeatureStage.BETA, feature.beta),
        (FeatureStage.STABLE, feature.stable),
        (FeatureStage.REMOVED, feature.removed),
    )
    return tuple((stage, minor) for stage, text in written if text and (minor := parse_minor(text)))


def features_in(minor: Minor, *, matrix: Matrix) -> Iterator[FeatureEntry]:
    """Yield every feature with its stage in ``minor``."""
    known = matrix.minors.get(minor)
    for feature in matrix.file.features:
        if known is None or known.released is None:
            yield FeatureEntry(feature, FeatureStage.UNKNOWN, None)
            continue
        reached = [(stage, since) for stage, since in stages_of(feature) if since <= minor]
        stage, since = reached[-1] if reached else (FeatureStage.ABSENT, None)
        yield FeatureEntry(feature, stage, since)
