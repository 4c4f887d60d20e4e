"""The pods that a manifest makes, and the Windows that they say they are built for.

Read from objects that nobody has validated: what is not of the right type is as if it were not there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from winpool.api.keys import GROUP, OS_LABEL, WINDOWS_BUILD_LABEL
from winpool.cli.lenient import items, mapping
from winpool.support.versions import parse_windows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from winpool.support.versions import WindowsVersion

BUILD_ANNOTATION: Final = f"{GROUP}/windows-build"
"""On a pod: the Windows its images are built for, such as ``10.0.20348``."""

OS_LINUX: Final = "linux"

_TEMPLATE: Final = ("spec", "template")
_TEMPLATES: Final[Mapping[str, tuple[str, ...]]] = {
    "Pod": (),
    "PodTemplate": ("template",),
    "Deployment": _TEMPLATE,
    "ReplicaSet": _TEMPLATE,
    "ReplicationController": _TEMPLATE,
    "StatefulSet": _TEMPLATE,
    "DaemonSet": _TEMPLATE,
    "Job": _TEMPLATE,
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
"""Where each kind of Kubernetes has its pod."""


@dataclass(frozen=True, slots=True)
class Container:
    """A container: its name, its image, and whether it is a HostProcess container."""

    name: str
    image: str
    host_process: bool


@dataclass(frozen=True, slots=True)
class Declared:
    """The Windows that a pod says its images are built for, and where it says so."""

    version: WindowsVersion
    where: str


@dataclass(frozen=True, slots=True)
class Workload:
    """The pods of one object. ``asks_for`` are the builds of nodes it can be scheduled to, empty for any."""

    title: str
    is_linux: bool
    declared: Declared | None
    asks_for: tuple[str, ...]
    containers: tuple[Container, ...]


def workload_of(content: Any) -> Workload | None:
    """Return the pods that ``content`` makes; None where it is no object that makes any."""
    found = mapping(content)
    kind = found.get("kind")
    if not isinstance(kind, str) or kind not in _TEMPLATES:
        return None
    pod = found
    for field in _TEMPLATES[kind]:
        pod = mapping(pod.get(field))
    spec, name = mapping(pod.get("spec")), mapping(found.get("metadata")).get("name")
    selector = mapping(spec.get("nodeSelector"))
    builds = _builds(spec, selector)
    return Workload(
        title=f"{kind} {name}" if isinstance(name, str) else kind,
        is_linux=OS_LINUX in (mapping(spec.get("os")).get("name"), selector.get(OS_LABEL)),
        declared=_declared(mapping(mapping(pod.get("metadata")).get("annotations")), builds),
        asks_for=builds,
        containers=tuple(_containers(spec)),
    )


def _declared(annotations: Mapping[str, Any], builds: tuple[str, ...]) -> Declared | None:
    """Take the annotation, else the oldest build that the pod asks for: its images run on all of them."""
    text = annotations.get(BUILD_ANNOTATION)
    said = parse_windows(text) if isinstance(text, str) else None
    if said is not None:
        return Declared(said, f"the annotation {BUILD_ANNOTATION}")
    versions = [version for each in builds if (version := parse_windows(each))]
    if not versions:
        return None
    return Declared(
        min(versions, key=lambda each: each.build), f"the build that the pod selects by {WINDOWS_BUILD_LABEL}"
    )


def _builds(spec: Mapping[str, Any], selector: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the values of the build label that the pod's node selector or required affinity allows."""
    written = selector.get(WINDOWS_BUILD_LABEL)
    if isinstance(written, str):
        return (written,)
    affinity = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    required = mapping(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"))
    terms = [_of_term(mapping(term)) for term in items(required.get("nodeSelectorTerms"))]
    # One term is enough for a node, so that one without a build lets the pod go anywhere.
    return tuple(dict.fromkeys(build for term in terms for build in term)) if all(terms) else ()


def _of_term(term: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(
        value
        for each in map(mapping, items(term.get("matchExpressions")))
        if (each.get("key"), each.get("operator")) == (WINDOWS_BUILD_LABEL, "In")
        for value in items(each.get("values"))
        if isinstance(value, str)
    )


def _containers(spec: Mapping[str, Any]) -> Iterator[Container]:
    of_pod = _host_process(spec)
    for field in ("initContainers", "containers"):
        for each in map(mapping, items(spec.get(field))):
            name, image, own = each.get("name"), each.get("image"), _host_process(each)
            yield Container(
                name=name if isinstance(name, str) else "?",
                image=image if isinstance(image, str) else "",
                host_process=bool(of_pod if own is None else own),
            )


def _host_process(holder: Mapping[str, Any]) -> bool | None:
    options = mapping(mapping(holder.get("securityContext")).get("windowsOptions"))
    value = options.get("hostProcess")
    return value if isinstance(value, bool) else None
