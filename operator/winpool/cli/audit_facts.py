"""Puts together what ``audit`` knows of a cluster: from the command line, from files, and from itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from winpool.api.keys import OS_LABEL, OS_WINDOWS, WINDOWS_BUILD_LABEL
from winpool.cli.lenient import Fields
from winpool.cli.parsing import RefusedError
from winpool.features.audit.cluster import Cluster, Host, Limits, RuntimeClass, alike
from winpool.features.audit.workloads import RUNTIME_CLASS, selected_keys, workload_of
from winpool.support.compat import Isolation, release_named
from winpool.support.versions import build_text_of, parse_windows

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping, Sequence

    from winpool.support.matrix import Matrix

ISOLATIONS: Final[Mapping[str, Isolation]] = {"process": Isolation.PROCESS, "hyperv": Isolation.HYPER_V}
"""What ``--isolation`` takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What was read of a cluster. None is not known; ``problems`` are what could not be read, by why.

    ``contents`` are workloads as manifests have them, each with the kind that people know it by.
    ``windows`` and ``linux`` are nodes.
    """

    version: str = ""
    contents: Sequence[tuple[Mapping[str, Any], str]] = ()
    windows: Sequence[Host] | None = None
    linux: Sequence[Host] | None = None
    classes: Sequence[Mapping[str, Any]] | None = None
    limits: Mapping[str, Limits] | None = None
    enforced: Mapping[str, str] | None = None
    problems: Mapping[str, Sequence[str]] = field(default_factory=dict)


def cluster_of(known: Read, contents: Iterable[Any], given: argparse.Namespace) -> Cluster:
    """Return what is known. RuntimeClasses among the ``contents`` count before those of the cluster.

    Raises RefusedError where a pool has no nodes.
    """
    of_files = [each for each in contents if kind_of(each) == RUNTIME_CLASS]
    classes = {
        Fields.of(each).one("metadata").text("name"): RuntimeClass.of(each)
        for each in (*(known.classes or ()), *of_files)
    }
    windows = known.windows
    if given.pool and windows is not None and not windows:
        raise RefusedError(f"the pool {given.pool} selects no Windows node")
    if given.host_build:
        windows = [_host(each, given.runtime) for each in given.host_build]
    keys = _keys(contents, classes)
    return Cluster(
        hosts=None if windows is None else alike(windows, keys),
        is_chosen=bool(given.host_build or given.pool),
        linux=None if known.linux is None else alike(known.linux, keys),
        runtime_classes=classes,
        has_all_classes=known.classes is not None,
        limits=known.limits,
        enforced=known.enforced,
        image_build=given.image_build or "",
        isolation=ISOLATIONS[given.isolation],
    )


def _keys(contents: Iterable[Any], classes: Mapping[str, RuntimeClass]) -> set[str]:
    """Return the keys of all labels that decide where pods go: nodes that differ in others are alike."""
    selectors = {name: each.node_selector for name, each in classes.items()}
    workloads = (workload_of(each, selectors) for each in contents)
    keys = {key for each in workloads if each for key in selected_keys(each)}
    return keys.union(*selectors.values(), (OS_LABEL, WINDOWS_BUILD_LABEL))


def _host(version: str, runtime: str) -> Host:
    labels = {OS_LABEL: OS_WINDOWS, WINDOWS_BUILD_LABEL: build_text_of(version)}
    return Host(kernel=version, runtime=runtime, labels=labels)


def kind_of(content: Any) -> str:
    """Return the kind of an object, empty where it has none."""
    return Fields.of(content).text("kind")


def version_named(written: str, *, matrix: Matrix) -> str | None:
    """Return the Windows that ``written`` names: ``10.0.20348.1607``, or ``10.0.20348`` for ``2022``.

    A version is taken as it is, also one that is not in the data; None for what names none.
    """
    given = written.strip()
    version = parse_windows(given)
    if version is not None:
        return str(version)
    name = release_named(given, matrix=matrix)
    if name is None:
        return f"10.0.{given}" if given.isdigit() and parse_windows(f"10.0.{given}") else None
    return f"10.0.{matrix.releases[name].build}"
