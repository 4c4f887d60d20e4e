"""``kubectl winpool matrix --features``: what of Windows works since which minor, as text and as data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from winpool.api.text import table
from winpool.cli.columns import aligned
from winpool.support.matrix import features_in, stages_of
from winpool.support.table import links

if TYPE_CHECKING:
    from collections.abc import Mapping

    from winpool.support.data import Feature
    from winpool.support.matrix import Matrix
    from winpool.support.versions import Minor


def as_text(matrix: Matrix, kubernetes: Minor | None) -> str:
    """Return the features as a table: with their stage in ``kubernetes``, or with all their stages."""
    if kubernetes is None:
        rows = ((*_cells(each), each.note or "-") for each in matrix.file.features)
        return aligned(("FEATURE", "ALPHA", "BETA", "STABLE", "REMOVED", "NOTE"), rows)
    found = (
        (each.feature.name, str(each.stage), str(each.since or "-"), each.feature.note or "-")
        for each in features_in(kubernetes, matrix=matrix)
    )
    return aligned(("FEATURE", f"IN {kubernetes}", "SINCE", "NOTE"), found)


def as_markdown(matrix: Matrix, kubernetes: Minor | None) -> str:
    """Return the features as a table of Markdown, with links to the sources."""
    if kubernetes is None:
        rows = (
            (
                each.name,
                *(text or "" for text in (each.alpha, each.beta, each.stable, each.removed)),
                each.note,
                links(each.source, matrix=matrix),
            )
            for each in matrix.file.features
        )
        return table(("Feature", "Alpha", "Beta", "Stable", "Removed", "Remarks", "Sources"), rows)
    found = (
        (
            each.feature.name,
            str(each.stage),
            str(each.since or ""),
            each.feature.note,
            links(each.feature.source, matrix=matrix),
        )
        for each in features_in(kubernetes, matrix=matrix)
    )
    return table(("Feature", f"In {kubernetes}", "Since", "Remarks", "Sources"), found)


def content(matrix: Matrix, kubernetes: Minor | None) -> Mapping[str, Any]:
    """Return what programs get."""
    in_minor = (
        {}
        if kubernetes is None
        else {each.feature.name: each for each in features_in(kubernetes, matrix=matrix)}
    )
    features = []
    for each in matrix.file.features:
        row: dict[str, Any] = {
            "name": each.name,
            "stages": {str(stage): str(minor) for stage, minor in stages_of(each)},
            "note": each.note,
            "asOf": str(each.as_of),
            "sources": list(each.source),
        }
        if kubernetes is not None:
            row |= {"kubernetesVersion": str(kubernetes), "stage": str(in_minor[each.name].stage)}
        features.append(row)
    cited = sorted({source for each in matrix.file.features for source in each.source})
    return {
        "asOf": str(matrix.as_of),
        "features": features,
        "sources": {each: matrix.sources[each].url for each in cited},
    }


def _cells(feature: Feature) -> tuple[str, ...]:
    return (
        feature.name,
        *(text or "-" for text in (feature.alpha, feature.beta, feature.stable, feature.removed)),
    )
