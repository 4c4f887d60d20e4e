"""The conditions of rules that need to know more than a manifest: nodes, RuntimeClasses, namespaces.

They are ``Find`` and ``Test`` as those in ``conditions``. Where a fact is not known they find nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from winpool.api.keys import OS_LABEL, WINDOWS_BUILD_ANNOTATION, WINDOWS_BUILD_LABEL
from winpool.api.matrix import Verdict
from winpool.features.audit.cluster import Host, RuntimeClass, Selection, named
from winpool.features.audit.conditions import host_processes, is_host_process
from winpool.features.audit.workloads import (
    AFFINITY,
    BETA_OS_LABEL,
    Place,
    PodOS,
    Workload,
    below,
)
from winpool.support.compat import Compatibility, Isolation, compatible, guess_version
from winpool.support.matrix import built_in
from winpool.support.versions import build_text_of, parse_windows

_RESTRICTIVE: Final = ("baseline", "restricted")
"""Levels of Pod Security without HostProcess containers.
https://kubernetes.io/docs/concepts/security/pod-security-standards/"""

_SHOWN_LENGTH: Final = 80
"""Characters of the reference of an image that a message shows."""

_HYPER_V: Final = "hypervisor"
"""In the names of containerd's handlers for Hyper-V isolation, such as runhcs-wcow-hypervisor."""

_HOST_PROCESS: Final = "windowsOptions.hostProcess"


# Placement.


def lands_on_windows(workload: Workload, _: Sequence[Place]) -> Iterator[Place]:
    """Find pods of which nothing says the OS, and which a Windows node takes."""
    if workload.reach and workload.reach.taken:
        path = workload.path("spec.nodeSelector")
        yield Place(path, more=f"Windows nodes that take them: {_hosts(workload.reach.taken)}.")


def tolerates_everything(workload: Workload, _: Place) -> bool:
    """Whether the pods are those of a DaemonSet that tolerates every taint."""
    return workload.kind == "DaemonSet" and any(
        not each.key and not each.effect and each.operator == "Exists"
        for each in _selection(workload).tolerations
    )


def lands_on_linux(workload: Workload, _: Place) -> bool:
    """Whether a Linux node takes the pods, or that is not known."""
    return workload.reach is None or workload.reach.is_on_linux


def no_toleration(workload: Workload, _: Sequence[Place]) -> Iterator[Place]:
    """Find pods that no Windows node takes, because of the taints of those that they select."""
    reach = workload.reach
    if reach and reach.selected and not reach.taken:
        yield Place(workload.path("spec.tolerations"), more=_taints(reach.selected, _selection(workload)))


def no_node(workload: Workload, _: Sequence[Place]) -> Iterator[Place]:
    """Find pods that no Windows node takes, because none has the labels that they select."""
    reach, selection = workload.reach, _selection(workload)
    if reach and not reach.selected and not selection.node and workload.selects is not PodOS.LINUX:
        yield Place(workload.path("spec.nodeSelector"), more=_unselected(workload, selection))


def is_about_chosen_hosts(workload: Workload, _: Place) -> bool:
    """Whether someone has asked about certain hosts or a pool."""
    return workload.cluster.is_chosen


def class_out_of_reach(workload: Workload, _: Sequence[Place]) -> Iterator[Place]:
    """Find a RuntimeClass with which no Windows node takes a pod that sets nothing else."""
    reach, selection = workload.reach, _selection(workload)
    if reach is None or reach.taken:
        return
    if reach.selected:
        yield Place("scheduling.tolerations", more=_taints(reach.selected, selection))
    elif not workload.cluster.is_chosen:
        yield Place("scheduling.nodeSelector", more=_unselected(workload, selection))


def no_class(workload: Workload, places: Sequence[Place]) -> Iterable[Place]:
    """Find the name of a RuntimeClass that does not exist."""
    return places if workload.runtime_class else ()


def class_contradiction(workload: Workload, _: Sequence[Place]) -> Iterator[Place]:
    """Find labels that pods and their RuntimeClass select with different values."""
    own = _selector(workload)
    for key, value in workload.added.items():
        if own.get(key, value) != value:
            theirs = f"the RuntimeClass {_class_name(workload)} {key}={value}"
            path = workload.path(f"spec.nodeSelector[{key}]")
            yield Place(path, own[key], f"The pods select {key}={own[key]}, and {theirs}.")


def no_handler(workload: Workload, places: Sequence[Place]) -> Iterator[Place]:
    """Find a RuntimeClass whose handler no host has that takes the pods. All have to report theirs."""
    found = workload.cluster.runtime_classes.get(_class_name(workload))
    hosts = workload.reach.taken if workload.reach else ()
    if found is None or not hosts:
        return
    if all(each.handlers is not None and found.handler not in each.handlers for each in hosts):
        known = sorted({name for each in hosts for name in each.handlers or () if name})
        more = f"Its handler is {found.handler}; handlers of the nodes: {', '.join(known) or 'none by name'}."
        yield from (Place(each.path, each.value, more) for each in places)


def no_recursive_read_only(workload: Workload, places: Sequence[Place]) -> Iterator[Place]:
    """Find recursiveReadOnly: Enabled where a host that takes the pods reports that its handler cannot."""
    name = _class_name(workload)
    found = workload.cluster.runtime_classes.get(name, RuntimeClass())
    hosts = workload.reach.taken if workload.reach and (found.handler or not name) else ()
    without = [each for each in hosts if each.handlers is not None and not each.handlers.get(found.handler)]
    for each in places if without else ():
        if each.value == "Enabled":
            yield Place(each.path, each.value, f"Such nodes: {_hosts(without)}.")


# HostProcess containers.


def refused_by_pod_security(workload: Workload, places: Sequence[Place]) -> Iterator[Place]:
    """Find HostProcess containers in a namespace that enforces a level without them."""
    level = (workload.cluster.enforced or {}).get(workload.namespace)
    if level in _RESTRICTIVE:
        more = f"The namespace {workload.namespace} enforces {level}."
        yield from _first_host_process(workload, places, more)


def old_runtime(workload: Workload, places: Sequence[Place]) -> Iterator[Place]:
    """Find HostProcess containers that get to a host whose runtime cannot start them."""
    for host in workload.reach.taken if workload.reach else ():
        verdict = _compatible(host.kernel, host.runtime, "", Isolation.PROCESS, is_host_process=True)
        if verdict.verdict is Verdict.UNSUPPORTED:
            more = f"The runtime of {host} is {host.runtime}."
            yield from _first_host_process(workload, places, more)
            return


def _first_host_process(workload: Workload, places: Sequence[Place], more: str) -> Iterator[Place]:
    if is_host_process(workload):
        first = next(each for each in places if each.value is True)
        yield Place(first.path, first.value, more)


# Images.


class Image(NamedTuple):
    """The Windows that an image is for, empty if nothing says it, and what does. A tag can be wrong."""

    version: str
    source: str
    is_guess: bool = False


class Runs(NamedTuple):
    """What becomes of a container on the hosts that take its pod: those that run it, and those that do not.

    ``unknown`` is why it is not known for some. ``warned`` runs it, with something to know.
    """

    place: Place
    image: Image
    refused: list[tuple[Host, str]]
    warned: list[tuple[Host, str]]
    others: int
    unknown: str


def runs_nowhere(workload: Workload, _: Sequence[Place]) -> Iterator[Place]:
    """Find containers that no host runs that takes the pods, and those with a warning about the others."""
    for each in _containers(workload):
        if each.refused and not each.others and not each.warned:
            yield Place(each.place.path, each.place.value, _told(each, each.refused))
        elif each.warned and not each.refused:
            yield Place(each.place.path, each.place.value, _told(each, each.warned))


def is_certain(workload: Workload, place: Place) -> bool:
    """Whether a container does run on no host, by what someone declares and not by a tag."""
    return any(
        each.place.path == place.path and each.refused and not each.image.is_guess
        for each in _containers(workload)
    )


def runs_on_some(workload: Workload, _: Sequence[Place]) -> Iterator[Place]:
    """Find pods with a container that some of the hosts that take them run, and others do not."""
    for each in _containers(workload):
        if each.refused and (each.others or each.warned):
            yield Place(
                workload.path(f"spec.nodeSelector[{WINDOWS_BUILD_LABEL}]"), more=_told(each, each.refused)
            )
            return


def unknown_images(workload: Workload) -> str:
    """Return why it is not known whether a container runs on the hosts that take its pod, or nothing."""
    return next((each.unknown for each in _containers(workload) if each.unknown), "")


def _containers(workload: Workload) -> Iterator[Runs]:
    hosts = workload.reach.taken if workload.reach else ()
    is_asked = workload.os is PodOS.WINDOWS or workload.cluster.image_build
    if not hosts or not is_asked:
        return
    declared, isolation = _declared(workload), _isolation(workload)
    for container, of_host in zip(workload.containers(), host_processes(workload), strict=True):
        if not of_host:
            written = container.value.get("image")
            image = declared or _guessed(written if isinstance(written, str) else "")
            yield _runs(Place(f"{container.path}.image", written), image, hosts, isolation)


def _runs(place: Place, image: Image, hosts: Sequence[Host], isolation: Isolation) -> Runs:
    runs = Runs(place, image, [], [], 0, "")
    if not image.version:
        return runs._replace(unknown=image.source, others=len(hosts))
    others, unknown = 0, ""
    for host in hosts:
        found = _compatible(host.kernel, host.runtime, image.version, isolation, is_host_process=False)
        told = found.reasons[0].text
        match found.verdict:
            case Verdict.UNSUPPORTED:
                runs.refused.append((host, told))
            case Verdict.WARNED:
                runs.warned.append((host, told))
            case Verdict.UNKNOWN:
                others, unknown = others + 1, told.removesuffix(".")
            case Verdict.SUPPORTED:
                others += 1
    return runs._replace(others=others, unknown=unknown)


def _told(runs: Runs, hosts: Sequence[tuple[Host, str]]) -> str:
    first, why = hosts[0]
    also = f" and {len(hosts) - 1} more" if len(hosts) > 1 else ""
    told = f"On {first}{also}: {why} The image is for {runs.image.version}, according to {runs.image.source}."
    return f"{told} This is a guess: a tag can be wrong." if runs.image.is_guess else told


def _declared(workload: Workload) -> Image | None:
    """Return what all images are for: by the command line, the annotation, or the build that the pod selects.

    Of several builds the oldest counts: images for it run on all of them.
    """
    if workload.cluster.image_build:
        return Image(workload.cluster.image_build, "--image-build")
    written = workload.value(f"metadata.annotations[{WINDOWS_BUILD_ANNOTATION}]")
    if isinstance(written, str) and (said := parse_windows(written)):
        return Image(str(said), f"the annotation {WINDOWS_BUILD_ANNOTATION}")
    versions = [version for each in _builds(workload) if (version := parse_windows(each))]
    oldest = min(versions, key=lambda each: each.build, default=None)
    if oldest is None:
        return None
    is_of_class = WINDOWS_BUILD_LABEL in workload.added
    who = f"the RuntimeClass {_class_name(workload)}" if is_of_class else "the pod"
    return Image(str(oldest), f"the build that {who} selects by {WINDOWS_BUILD_LABEL}")


@lru_cache(maxsize=1024)
def _guessed(reference: str) -> Image:
    """Return what an image is for by its tag, or that nothing says it."""
    guess = guess_version(reference, matrix=built_in())
    if guess is not None:
        return Image(str(guess), f"its tag ({reference})", is_guess=True)
    nothing = f"nothing says the Windows version of {reference[:_SHOWN_LENGTH] or 'its image'}"
    return Image("", f"{nothing}: use --image-build or the annotation {WINDOWS_BUILD_ANNOTATION}")


def _builds(workload: Workload) -> tuple[str, ...]:
    """Return the values of the build label that the node selector or required affinity of the pod allows."""
    written = {**workload.added, **_selector(workload)}.get(WINDOWS_BUILD_LABEL)
    if isinstance(written, str):
        return (written,)
    terms = [list(_builds_of(each.value)) for each in workload.places(AFFINITY)]
    # One term is enough for a node, so that one without a build lets the pod go anywhere.
    return tuple(dict.fromkeys(build for term in terms for build in term)) if all(terms) else ()


def _builds_of(term: Any) -> Iterator[str]:
    for each in below(term, "matchExpressions[*]"):
        fields = each.value if isinstance(each.value, dict) else {}
        if (fields.get("key"), fields.get("operator")) == (WINDOWS_BUILD_LABEL, "In"):
            values = (inner.value for inner in below(fields, "values[*]"))
            yield from (value for value in values if isinstance(value, str))


def _isolation(workload: Workload) -> Isolation:
    found = workload.cluster.runtime_classes.get(_class_name(workload), RuntimeClass())
    return Isolation.HYPER_V if _HYPER_V in found.handler else workload.cluster.isolation


@lru_cache(maxsize=1024)
def _compatible(
    kernel: str, runtime: str, image: str, isolation: Isolation, *, is_host_process: bool
) -> Compatibility:
    return compatible(
        kernel, image, isolation, matrix=built_in(), runtime=runtime, host_process=is_host_process
    )


# Words.


def _selection(workload: Workload) -> Selection:
    if workload.is_runtime_class:
        found = RuntimeClass.of(workload.content)
        return Selection(found.node_selector, None, found.tolerations)
    classes = workload.cluster.runtime_classes
    return Selection.of(workload.value("spec"), classes.get(_class_name(workload), RuntimeClass()))


def _selector(workload: Workload) -> dict[str, Any]:
    found = workload.value("spec.nodeSelector")
    return found if isinstance(found, dict) else {}


def _class_name(workload: Workload) -> str:
    found = workload.value("spec.runtimeClassName")
    return found if isinstance(found, str) else ""


def _hosts(hosts: Sequence[Host]) -> str:
    return named(sorted(name for each in hosts for name in each.names))


def _taints(hosts: Sequence[Host], selection: Selection) -> str:
    """Say which taints keep the pods away: those of the first kinds of nodes."""
    found = [
        (f"{each.key}={each.value}:{each.effect}" if each.value else f"{each.key}:{each.effect}", host)
        for host in hosts
        for each in selection.untolerated(host)
    ]
    texts = list(dict.fromkeys(text for text, _ in found))
    return f"Taints that they do not tolerate: {named(texts)} (on {_hosts(hosts)})."


def _unselected(workload: Workload, selection: Selection) -> str:
    hosts = workload.cluster.hosts or ()
    builds = list(dict.fromkeys(build_text_of(each.kernel) or each.kernel for each in hosts))
    labels = [
        f"{key}={value}" for key, value in selection.labels.items() if key not in (OS_LABEL, BETA_OS_LABEL)
    ]
    if selection.terms is not None:
        labels.append("a required node affinity")
    asked = f"They select {named(labels)}" if labels else "They select Windows nodes"
    return (
        f"{asked}, and the Windows hosts are {named(builds)}." if builds else f"{asked}, and there is none."
    )
