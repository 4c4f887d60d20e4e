"""Reads what a pod asks of a node, and what a drain would do to it, from the raw parts of ``pod_work_wire``.

Anyone who may create pods decides what these say. So nothing long is kept of them, whatever was read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from winpool.api.keys import WINDOWS_BUILD_LABEL
from winpool.cluster import pod_work_wire as wire
from winpool.cluster.pod_requests import Asked, asked_by
from winpool.cluster.wire import BROKEN
from winpool.pods.pod_work import DEFAULT_GRACE_SECONDS, MOST_GRACE_SECONDS, PodWork, Unclear
from winpool.pods.workloads import PodShape
from winpool.support.versions import parse_windows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import msgspec

    from winpool.pods.pod import Toleration

TEXT_KEPT: Final = 2048
"""Characters of the selector and the tolerations of a pod that are kept. Real ones have some two hundred."""

TOLERATIONS_KEPT: Final = 32
"""As many as are shared between pods (``pods``)."""

_HARMLESS: Final = frozenset(
    {"name", "configMap", "downwardAPI", "emptyDir", "hostPath", "image", "projected", "secret"}
)
"""Volumes that keep a pod from no node (core/v1 Volume). All others may: a disk is in one zone."""

_EMPTY_DIR: Final = "emptyDir"
_SOFT: Final = "ScheduleAnyway"
_IN: Final = "In"
_DEFAULT_SCHEDULERS: Final = ("", "default-scheduler")

Pairs = tuple[tuple[str, str], ...]
"""Labels that a node must have, in order."""

ReadT = TypeVar("ReadT")


def work_of(found: wire.WorkObject, tolerations: tuple[Toleration, ...]) -> PodWork | None:
    """Return what is read of a pod whose tolerations are read already; None where a part cannot be read."""
    try:
        return _work(_Parts.of(found.spec), tolerations, annotation=_annotation(found))
    except (*BROKEN, ValueError):  # wrong types, or an amount that is none
        return None


@dataclass(frozen=True, slots=True)
class _Parts:
    """The parts of a spec, read."""

    asked: Asked
    selector: Mapping[str, str]
    affinity: wire.Affinity
    spreads: Sequence[wire.Spread]
    volumes: Sequence[Mapping[str, msgspec.Raw]]
    has_claims: bool
    scheduler: str
    grace: int | None

    @classmethod
    def of(cls, spec: wire.WorkSpec) -> _Parts:
        """Read the parts. Raises one of BROKEN, or ValueError, where one cannot be read."""
        return cls(
            asked=asked_by(
                _read(wire.containers, spec.containers) or (),
                _read(wire.containers, spec.init_containers) or (),
                whole=_read(wire.resources, spec.resources),
                overhead=_read(wire.amounts, spec.overhead),
            ),
            selector=_read(wire.selector, spec.node_selector) or {},
            affinity=_read(wire.affinity, spec.affinity) or wire.Affinity(),
            spreads=_read(wire.spreads, spec.topology_spread_constraints) or (),
            volumes=_read(wire.volumes, spec.volumes) or (),
            has_claims=bool(_read(wire.claims, spec.resource_claims)),
            scheduler=_read(wire.name, spec.scheduler_name) or "",
            grace=_read(wire.number, spec.termination_grace_period_seconds),
        )


def _read(decoder: msgspec.json.Decoder[ReadT | None], raw: msgspec.Raw) -> ReadT | None:
    return decoder.decode(raw) if raw else None


def _annotation(found: wire.WorkObject) -> str:
    annotations = found.metadata.annotations
    return (annotations.windows_build or "") if annotations else ""


def _work(parts: _Parts, tolerations: tuple[Toleration, ...], *, annotation: str) -> PodWork:
    required = parts.affinity.node_affinity and parts.affinity.node_affinity.required
    terms = required.node_selector_terms or () if required else ()
    pairs = tuple(sorted({*parts.selector.items(), *_labels_of(terms)}))
    is_short = _is_short(pairs, tolerations)
    bound = _build(next((value for key, value in pairs if key == WINDOWS_BUILD_LABEL), ""))
    unclear = _unclear(parts, is_simple=not required or _is_simple(terms)) if is_short else Unclear.SIZE
    return PodWork(
        shape=PodShape(
            requests=parts.asked.requests,
            selector=pairs if is_short else (),
            tolerations=tolerations if is_short else (),
            unclear=unclear,
        ),
        build=bound or _build(annotation),
        is_bound=bool(bound),
        is_local=any(_EMPTY_DIR in each for each in parts.volumes),
        grace_seconds=_grace(parts.grace),
    )


def _unclear(parts: _Parts, *, is_simple: bool) -> str:
    """Return the first reason why it is not known which nodes would take the pod; empty where it is."""
    to_pods = (parts.affinity.pod_affinity, parts.affinity.pod_anti_affinity)
    checks = (
        (Unclear.NODE_AFFINITY, not is_simple),
        (Unclear.POD_AFFINITY, any(each is not None and bool(each.required) for each in to_pods)),
        (Unclear.SPREAD, any(each.when_unsatisfiable != _SOFT for each in parts.spreads)),
        (Unclear.VOLUMES, any(not each.keys() <= _HARMLESS for each in parts.volumes)),
        (Unclear.RESOURCES, parts.asked.has_others),
        (Unclear.CLAIMS, parts.has_claims),
        (Unclear.HOST_PORTS, parts.asked.has_host_ports),
        (Unclear.SCHEDULER, parts.scheduler not in _DEFAULT_SCHEDULERS),
    )
    return next((why for why, is_so in checks if is_so), "")


def _is_simple(terms: Sequence[wire.Term]) -> bool:
    """Whether the required affinity is one term that names labels only, as a nodeSelector does."""
    if len(terms) != 1 or terms[0].match_fields:
        return False
    return all(_is_one_label(each) for each in terms[0].match_expressions or ())


def _is_one_label(each: wire.Expression) -> bool:
    return each.operator == _IN and len(each.values or ()) == 1


def _labels_of(terms: Sequence[wire.Term]) -> Iterator[tuple[str, str]]:
    """Yield the labels that a node must have by the affinity; of several terms any may hold, so none."""
    if len(terms) == 1:
        for each in terms[0].match_expressions or ():
            if _is_one_label(each) and each.values:
                yield each.key, each.values[0]


def _is_short(pairs: Pairs, tolerations: Sequence[Toleration]) -> bool:
    if len(tolerations) > TOLERATIONS_KEPT:
        return False
    return _length(part for pair in pairs for part in pair) + sum(map(_length_of, tolerations)) <= TEXT_KEPT


def _length(texts: Iterable[str]) -> int:
    return sum(map(len, texts))


def _length_of(each: Toleration) -> int:
    return len(each.key) + len(each.operator) + len(each.value) + len(each.effect)


def _build(text: str) -> str:
    """Return the build that a text names, without a revision; empty where it names none."""
    version = parse_windows(text)
    return version.build_text if version is not None else ""


def _grace(seconds: int | None) -> int:
    return DEFAULT_GRACE_SECONDS if seconds is None else min(max(0, seconds), MOST_GRACE_SECONDS)
