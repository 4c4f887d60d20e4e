"""Reads the pods that a manifest makes, and judges whether their containers run on a host.

Pods are read from objects that nobody has validated: what is not of the right type is as if it were absent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from winpool.api.keys import OS_LABEL, WINDOWS_BUILD_ANNOTATION, WINDOWS_BUILD_LABEL
from winpool.api.matrix import Verdict
from winpool.cli.lenient import Fields
from winpool.features.audit.workloads import TEMPLATES
from winpool.support.compat import Isolation, compatible, guess_version, release_named
from winpool.support.matrix import Matrix, built_in
from winpool.support.versions import build_text_of, parse_windows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from winpool.features.audit.workloads import NodeSelectors


@dataclass(frozen=True, slots=True)
class Container:
    """A container: its name, its image, and whether it is a HostProcess container."""

    name: str
    image: str
    host_process: bool


@dataclass(frozen=True, slots=True)
class Workload:
    """The pods of one object. ``asks_for`` are the builds of nodes it can be scheduled to, empty for any.

    ``declared`` is the Windows that its images are built for, and who says so. ``refusal`` is why the API
    server refuses the pods, empty where it does not.
    """

    title: str
    runtime_class: str
    refusal: str
    is_linux: bool
    declared: tuple[str, str] | None
    asks_for: tuple[str, ...]
    containers: tuple[Container, ...]


@dataclass(frozen=True, slots=True)
class Host:
    """What a node runs: its kernelVersion and its containerRuntimeVersion, as its nodeInfo has them."""

    kernel_version: str
    runtime: str = ""

    @property
    def build_text(self) -> str:
        """What its kubelet writes into the label for the build; empty for what is no Windows."""
        return build_text_of(self.kernel_version)


def node_selectors(runtime_classes: Iterable[Fields]) -> dict[str, Mapping[str, Any]]:
    """Return what each RuntimeClass adds to the node selector of its pods."""
    return {
        each.one("metadata").text("name"): each.one("scheduling", "nodeSelector").content
        for each in runtime_classes
    }


def workload_of(content: Any, selectors: NodeSelectors) -> Workload | None:
    """Return the pods that ``content`` makes, with the node selectors of their RuntimeClasses.

    None where it is no object that makes any.
    """
    fields = Fields.of(content)
    kind = fields.text("kind")
    if kind not in TEMPLATES:
        return None
    pod = fields.one(*filter(None, TEMPLATES[kind].split(".")))
    spec, annotations = pod.one("spec"), pod.one("metadata", "annotations")
    name = spec.text("runtimeClassName")
    own, added = spec.one("nodeSelector").content, selectors.get(name, {})
    spec = Fields({**spec.content, "nodeSelector": {**added, **own}})
    builds = _builds(spec)
    who = f"the RuntimeClass {name}" if WINDOWS_BUILD_LABEL in added else "the pod"
    return Workload(
        title=f"{kind} {fields.one('metadata').text('name')}".rstrip(),
        runtime_class=name,
        refusal=next(
            (
                f"the API server refuses the pod: it selects {key}={own[key]}, and its RuntimeClass {name} "
                f"selects {key}={value}"
                for key, value in added.items()
                if own.get(key, value) != value
            ),
            "",
        ),
        is_linux="linux" in (spec.one("os").text("name"), spec.one("nodeSelector").text(OS_LABEL)),
        declared=_declared(annotations.text(WINDOWS_BUILD_ANNOTATION), builds, who),
        asks_for=builds,
        containers=tuple(_containers(spec)),
    )


def _declared(annotation: str, builds: tuple[str, ...], who: str) -> tuple[str, str] | None:
    """Take the annotation, else the oldest build that ``who`` asks for: its images run on all of them."""
    if said := parse_windows(annotation):
        return str(said), f"the annotation {WINDOWS_BUILD_ANNOTATION}"
    versions = [version for each in builds if (version := parse_windows(each))]
    oldest = min(versions, key=lambda each: each.build, default=None)
    return (str(oldest), f"the build that {who} selects by {WINDOWS_BUILD_LABEL}") if oldest else None


def _builds(spec: Fields) -> tuple[str, ...]:
    """Return the values of the build label that the pod's node selector or required affinity allows."""
    written = spec.one("nodeSelector").content.get(WINDOWS_BUILD_LABEL)
    if isinstance(written, str):
        return (written,)
    required = spec.one("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    terms = [
        [
            value
            for each in term.all("matchExpressions")
            if (each.text("key"), each.text("operator")) == (WINDOWS_BUILD_LABEL, "In")
            for value in each.items("values")
            if isinstance(value, str)
        ]
        for term in required.all("nodeSelectorTerms")
    ]
    # One term is enough for a node, so that one without a build lets the pod go anywhere.
    return tuple(dict.fromkeys(build for term in terms for build in term)) if all(terms) else ()


def _containers(spec: Fields) -> Iterator[Container]:
    for each in (*spec.all("initContainers"), *spec.all("containers")):
        options = [holder.one("securityContext", "windowsOptions").content for holder in (each, spec)]
        said = [value for found in options if isinstance(value := found.get("hostProcess"), bool)]
        yield Container(
            name=each.text("name") or "?", image=each.text("image"), host_process=bool(said and said[0])
        )


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


def judged(
    container: Container, declared: tuple[str, str] | None, host: Host, isolation: Isolation
) -> tuple[Verdict, str]:
    """Return whether ``container`` runs on ``host``, and the reasons in sentences.

    ``declared`` is the Windows of its image, and who says so; without it, its tag is a guess.
    """
    matrix = built_in()
    guess = None if declared else guess_version(container.image, matrix=matrix)
    version, source = declared or (str(guess or ""), f"its tag ({container.image})")
    if not version and not container.host_process:
        return Verdict.UNKNOWN, (
            f"the Windows version of {container.image or 'its image'} is unknown. Set the annotation "
            f"{WINDOWS_BUILD_ANNOTATION} of the pod, or use --image-build."
        )
    found = compatible(
        host.kernel_version,
        version,
        isolation,
        matrix=matrix,
        runtime=host.runtime,
        host_process=container.host_process,
    )
    told = " ".join(reason.text for reason in found.reasons)
    if version and not container.host_process:
        told = f"{told} The image is for {version}, according to {source}."
    if guess and found.verdict is Verdict.UNSUPPORTED:
        return Verdict.WARNED, f"{told} This is a guess: a tag can be wrong."
    return found.verdict, told
