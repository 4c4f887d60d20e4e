"""What the support matrix holds in store for the release that a pool asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.features.judge import rows_of, unknown_release
from winpool.support.rows import layered
from winpool.support.servicing import class_reason, ended_reasons
from winpool.support.verdicts import Layer, worst

if TYPE_CHECKING:
    from datetime import date

    from winpool.api.matrix import Verdict
    from winpool.api.v1alpha1 import WindowsNodePoolSpec
    from winpool.support.matrix import Matrix
    from winpool.support.versions import Minor


def outlook(spec: WindowsNodePoolSpec, *, matrix: Matrix, today: date) -> str:
    """Say how nodes of the release would be judged, with each Kubernetes minor that is maintained today.

    With the rows of the pool, and without what only a node knows: its revision, kubelet and runtime. It ends
    with the day that the data is of. A release that nobody knows is a warning, with the fix.
    """
    asked = spec.os.version
    name = matrix.judged_as(asked)
    layers = layered(matrix, (), rows_of(spec.support_matrix))
    if unknown := unknown_release(spec.os, layers=layers):
        return f"warning: {unknown.text}"
    release, row = matrix.releases.get(name), layers.override(name).end_of_support
    said = row or ((release.end_of_support, Layer.BUILT_IN) if release else None)
    ended = tuple(ended_reasons(name, said[0], layer=said[1], today=today)) if said else ()
    found: dict[Verdict, list[str]] = {}
    for minor in _maintained(matrix, today):
        verdict = worst((class_reason(minor, name, layers=layers), *ended))
        found.setdefault(verdict, []).append(str(minor))
    verdicts = ", ".join(f"{verdict} with Kubernetes {' and '.join(on)}" for verdict, on in found.items())
    title = asked if asked == name else f"{asked}, judged as {name}, which has the same build"
    support = "end of support unknown"
    if said:
        support = f"{'support ended on' if ended else 'supported until'} {said[0]}"
    return f"Windows Server {title}: {verdicts}; {support}; data from {matrix.as_of}"


def _maintained(matrix: Matrix, today: date) -> list[Minor]:
    """Return the minors that still get patches, or the newest that is known where the data is that old."""
    released = [minor for minor, each in matrix.minors.items() if each.released]
    live = [minor for minor in released if (matrix.minors[minor].end_of_life or today) >= today]
    return live or released[-1:]
