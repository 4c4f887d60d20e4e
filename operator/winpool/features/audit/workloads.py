"""Finds the pods that an object makes, and judges for which OS they are, and by what.

Objects come from files that no one has validated: a field of another type counts as absent, and nothing
raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from winpool.api.keys import OS_LABEL, WINDOWS_BUILD_ANNOTATION, WINDOWS_BUILD_LABEL
from winpool.features.audit.cluster import NOTHING_KNOWN, Cluster, Reach, RuntimeClass, Selection

RUNTIME_CLASS: Final = "RuntimeClass"

TEMPLATE: Final = "spec.template"

TEMPLATES: Final[Mapping[str, str]] = {
    "Pod": "",
    "PodTemplate": "template",
    "Deployment": TEMPLATE,
    "ReplicaSet": TEMPLATE,
    "ReplicationController": TEMPLATE,
    "StatefulSet": TEMPLATE,
    "DaemonSet": TEMPLATE,
    "Job": TEMPLATE,
    "CronJob": "spec.jobTemplate.spec.template",
}
"""Where each kind of Kubernetes has its pod. Other kinds have one where ``TEMPLATE`` has containers."""

CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
"""What ``containers[*]`` in the field of a rule means: the API server validates all three alike
(``VisitContainersWithPath``)."""

BETA_OS_LABEL: Final = "beta.kubernetes.io/os"
"""Kubelets still set it. https://kubernetes.io/docs/reference/labels-annotations-taints/"""

_AKS_SKU_LABEL: Final = "kubernetes.azure.com/os-sku"
"""Windows2022 and the like; AKS says to select it for an upgrade in place of the OS.
https://learn.microsoft.com/azure/aks/upgrade-windows-os"""

ISOLATION_ANNOTATION: Final = "experimental.windows.kubernetes.io/isolation-type"
"""Only Windows ever had it. https://kubernetes.io/docs/concepts/windows/intro/"""

_OS_LABELS: Final = (OS_LABEL, BETA_OS_LABEL)
AFFINITY: Final = (
    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[*]"
)
_WINDOWS_IMAGE: Final = re.compile(
    r"(?<![a-z0-9])(nanoserver|windowsservercore|servercore|ltsc20\d\d)(?![a-z0-9])"
)
"""Words of Microsoft's base images in the name or the tag of an image: Windows, probably."""

NODE_WORDS: Final = (OS_LABEL.encode(), WINDOWS_BUILD_LABEL.encode(), _AKS_SKU_LABEL.encode())
CONTAINER_WORDS: Final = (b"windowsoptions", b"nanoserver", b"servercore", b"ltsc20")
"""Words of which one is in every affinity, or in small letters in all containers and security contexts, that
has evidence of an OS: without them their JSON need not be read for it, as that of most pods."""

_PART: Final = re.compile(r"[^.\[\]]+|\[[^\]]+\]")


class PodOS(StrEnum):
    """For which OS the pods of a workload are."""

    WINDOWS = "windows"
    LINUX = "linux"
    UNKNOWN = "unknown"


class Place(NamedTuple):
    """A field in an object: its path from the root of the object, and its value.

    ``more`` is what this object adds to the words of a rule.
    """

    path: str
    value: Any = None
    more: str = ""


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of one object; ``at`` is the path of the pod in it, empty for a Pod.

    ``kind`` is the one that people know it by. ``os_name`` is ``spec.os.name``, empty without it.
    ``selects`` is the OS of the nodes that the pods select, with what their RuntimeClass adds. ``os`` is the
    verdict, and ``evidence`` what it is from. ``class_name`` is the name of their RuntimeClass, and ``added``
    what it adds; None where it is not known. ``reach`` says to which hosts of the ``cluster`` they get by
    their ``selection``; None where none is known.
    """

    kind: str
    name: str
    at: str
    content: Mapping[str, Any]
    os_name: str
    selects: PodOS
    os: PodOS
    evidence: str
    selection: Selection
    class_name: str = ""
    added: RuntimeClass | None = None
    namespace: str = ""
    cluster: Cluster = NOTHING_KNOWN
    reach: Reach | None = None

    @property
    def is_runtime_class(self) -> bool:
        """Whether it stands for a RuntimeClass."""
        return _text(self.content, "kind") == RUNTIME_CLASS

    @property
    def runtime_class(self) -> str:
        """The name of their RuntimeClass where it is not known."""
        return "" if self.added else self.class_name

    @property
    def title(self) -> str:
        """Kind and name."""
        return f"{self.kind} {self.name}".rstrip()

    def path(self, field: str) -> str:
        """Return the path in the object of a field of the pod."""
        return f"{self.at}.{field}" if self.at else field

    def places(self, field: str) -> list[Place]:
        """Return where ``field`` of the pod is set, in the order of the object; null counts as absent."""
        return list(below(self.content, self.path(field)))

    def value(self, field: str) -> Any:
        """Return the value of a ``field`` that is there once at most, None without it."""
        return next((each.value for each in self.places(field)), None)

    def containers(self) -> list[Place]:
        """Return the containers of all three lists that are objects."""
        return [each for each in self.places("spec.containers[*]") if isinstance(each.value, dict)]


def workload_of(content: Any, cluster: Cluster = NOTHING_KNOWN) -> Workload | None:
    """Return the pods that an object makes; None where there are none that winpool finds."""
    kind, name = (_text(content, field) for field in ("kind", "metadata.name"))
    at = TEMPLATES.get(kind, TEMPLATE)
    spec = _value(content, f"{at}.spec" if at else "spec")
    is_pod = isinstance(spec, dict) and (kind in TEMPLATES or isinstance(spec.get("containers"), list))
    if not is_pod:
        return None
    pod = {"spec": spec, "metadata": _value(content, f"{at}.metadata" if at else "metadata")}
    class_name = _text(pod, "spec.runtimeClassName")
    os_name = _text(pod, "spec.os.name")
    added = cluster.runtime_classes.get(class_name)
    selects, by = _selected(pod, added.node_selector if added else {}, class_name)
    os, evidence = _verdict(pod, os_name, selects, by)
    selection = Selection.of(spec, added or RuntimeClass())
    return Workload(
        kind=kind,
        name=name or _text(content, "metadata.generateName"),
        at=at,
        content=content,
        os_name=os_name,
        selects=selects,
        os=os,
        evidence=evidence,
        selection=selection,
        class_name=class_name,
        added=added,
        namespace=_text(content, "metadata.namespace"),
        cluster=cluster,
        reach=None if os is PodOS.LINUX else cluster.reach(selection),
    )


def runtime_class_of(content: Any, cluster: Cluster) -> Workload:
    """Return a RuntimeClass as if it were pods that set nothing else: where it sends them."""
    found = RuntimeClass.of(content)
    os = os_of_labels(found.node_selector)
    selection = Selection(found.node_selector, None, found.tolerations)
    return Workload(
        kind=RUNTIME_CLASS,
        name=_text(content, "metadata.name"),
        at="",
        content=content,
        os_name="",
        selects=os,
        os=os,
        evidence="scheduling.nodeSelector",
        selection=selection,
        cluster=cluster,
        reach=cluster.reach(selection),
    )


def selected_keys(workload: Workload) -> Iterator[str]:
    """Yield the keys of the labels by which pods may select nodes."""
    yield from workload.selection.labels
    for each in workload.places(f"{AFFINITY}.matchExpressions[*].key"):
        if isinstance(each.value, str):
            yield each.value


def _verdict(pod: Any, os_name: str, selects: PodOS, by: str) -> tuple[PodOS, str]:
    """Return for which OS a pod is, and by what. The first evidence wins: later ones are weaker."""
    if os_name in (PodOS.WINDOWS, PodOS.LINUX):
        return PodOS(os_name), "spec.os.name"
    if selects is not PodOS.UNKNOWN:
        return selects, by
    for field in (
        "spec.securityContext.windowsOptions",
        "spec.containers[*].securityContext.windowsOptions",
        f"metadata.annotations[{WINDOWS_BUILD_ANNOTATION}]",
        f"metadata.annotations[{ISOLATION_ANNOTATION}]",
    ):
        if found := next(below(pod, field), None):
            return PodOS.WINDOWS, found.path
    for image in below(pod, "spec.containers[*].image"):
        if isinstance(image.value, str) and (word := _WINDOWS_IMAGE.search(image.value.lower())):
            return PodOS.WINDOWS, f'"{word[0]}" in {image.path}'
    return PodOS.UNKNOWN, ""


def _selected(pod: Any, added: Mapping[str, Any], runtime_class: str) -> tuple[PodOS, str]:
    """Return the OS of the nodes that a pod selects, and by what: selector, affinity, RuntimeClass."""
    own = _value(pod, "spec.nodeSelector")
    for labels, by in ((own, "spec.nodeSelector"), (added, f"the RuntimeClass {runtime_class}")):
        if isinstance(labels, dict) and (os := os_of_labels(labels)) is not PodOS.UNKNOWN:
            return os, by
    # One term is enough for a node, so all of them have to agree.
    terms = {_of_term(each.value) for each in below(pod, AFFINITY)}
    if len(terms) == 1 and PodOS.UNKNOWN not in terms:
        return terms.pop(), "spec.affinity.nodeAffinity"
    return PodOS.UNKNOWN, ""


def os_of_labels(labels: Mapping[str, Any]) -> PodOS:
    """Return the OS of the nodes that have these labels, as far as they say it."""
    named = {labels.get(each) for each in _OS_LABELS if isinstance(labels.get(each), str)}
    is_sku = _is_windows_sku(labels.get(_AKS_SKU_LABEL))
    if WINDOWS_BUILD_LABEL in labels or PodOS.WINDOWS in named or is_sku:
        return PodOS.WINDOWS
    return PodOS.LINUX if PodOS.LINUX in named else PodOS.UNKNOWN


def _is_windows_sku(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("Windows")


def _of_term(term: Any) -> PodOS:
    for each in below(term, "matchExpressions[*]"):
        key, operator = (_text(each.value, field) for field in ("key", "operator"))
        values = [inner.value for inner in below(each.value, "values[*]")]
        if key == WINDOWS_BUILD_LABEL and operator in ("In", "Exists"):
            return PodOS.WINDOWS
        if key == _AKS_SKU_LABEL and operator == "In" and values and all(map(_is_windows_sku, values)):
            return PodOS.WINDOWS
        if key in _OS_LABELS and values in ([PodOS.WINDOWS], [PodOS.LINUX]):
            is_windows = (values == [PodOS.WINDOWS]) is (operator == "In")
            if operator in ("In", "NotIn"):
                return PodOS.WINDOWS if is_windows else PodOS.LINUX
    return PodOS.UNKNOWN


@lru_cache(maxsize=512)
def _parts(field: str) -> tuple[str, ...]:
    return tuple(_PART.findall(field))


def below(content: Any, field: str) -> Iterator[Place]:
    """Yield where ``field`` is set: ``[*]`` is each item of a list, ``[key]`` a key of a map."""
    return _walk(content, _parts(field), "")


def _walk(value: Any, parts: tuple[str, ...], path: str) -> Iterator[Place]:
    for index, part in enumerate(parts):
        if value is None:
            return
        if part in ("[*]", "containers"):
            yield from _branch(value, part, parts[index + 1 :], path)
            return
        if not isinstance(value, dict):
            return
        if part.startswith("["):
            value, path = value.get(part[1:-1]), path + part
        else:
            value, path = value.get(part), f"{path}.{part}" if path else part
    if value is not None:
        yield Place(path, value)


def _branch(value: Any, part: str, rest: tuple[str, ...], path: str) -> Iterator[Place]:
    """Walk on into each item of a list, and into each list of containers."""
    if part == "[*]":
        for index, each in enumerate(value if isinstance(value, list) else ()):
            yield from _walk(each, rest, f"{path}[{index}]")
    elif isinstance(value, dict):
        for name in CONTAINERS:
            if name in value:
                yield from _walk(value[name], rest, f"{path}.{name}" if path else name)


def _value(content: Any, field: str) -> Any:
    return next((each.value for each in below(content, field)), None)


def _text(content: Any, field: str) -> str:
    found = _value(content, field)
    return found if isinstance(found, str) else ""
