"""Whether an image runs on a host: ``compatible``, by rules that have a direction.

The build decides, and the revision (the monthly patch) usually does not. Sources: ``compatibility`` in
``matrix.yaml``, above all
https://learn.microsoft.com/virtualization/windowscontainers/deploy-containers/version-compatibility.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from winpool.api.verdicts import Verdict
from winpool.support.hosts import floor_of, matches_older, newest_known
from winpool.support.runtimes import CONTAINERD, DOCKER, sandbox_key
from winpool.support.verdicts import Reason, sorted_reasons, worst
from winpool.support.versions import parse_release, parse_runtime, parse_windows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from winpool.support.matrix import Matrix
    from winpool.support.versions import RuntimeVersion, WindowsVersion


class Isolation(StrEnum):
    """How a container is isolated from its host."""

    PROCESS = "Process"
    HYPER_V = "HyperV"


@dataclass(frozen=True, slots=True)
class Compatibility:
    """Whether an image runs on a host, and every reason, the worst first."""

    verdict: Verdict
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class _Pair:
    host: WindowsVersion
    image: WindowsVersion
    runtime: RuntimeVersion | None
    matrix: Matrix


def compatible(
    host: str,
    image: str,
    isolation: Isolation,
    *,
    matrix: Matrix,
    runtime: str = "",
    host_process: bool = False,
) -> Compatibility:
    """Judge an image whose ``os.version`` is ``image`` on a node whose kernelVersion is ``host``.

    For an image with several entries, the best answer over its entries holds. ``runtime`` is the node's
    containerRuntimeVersion; rules about the runtime are left out where it is empty or unreadable.
    ``host_process`` is for HostProcess containers, which are processes of the host: their image may be of
    any version. Missing or unreadable versions are Unknown, never Unsupported.
    """
    runs = parse_runtime(runtime)
    if host_process:
        return _answer(_host_process(runs, matrix))
    ours, theirs = parse_windows(host), parse_windows(image)
    if ours is None:
        text = f"The node's kernelVersion {host[:60]!r} is no version of Windows. Check nodeInfo of the node."
        return _answer([Reason("HostVersionUnknown", Verdict.UNKNOWN, text)])
    if theirs is None:
        text = (
            f"The image's os.version {image[:60]!r} is no version of Windows, so Windows itself decides "
            "when the container starts. Publish the image with os.version in its index."
        )
        return _answer([Reason("ImageVersionUnknown", Verdict.UNKNOWN, text)])
    pair = _Pair(ours, theirs, runs, matrix)
    if (theirs.major, theirs.minor) != (ours.major, ours.minor) or theirs.build > ours.build:
        return _answer([_refused(pair)])
    if ours.build > newest_known(matrix):
        text = (
            f"The host {ours.build_text} is newer than all whose rules are published. "
            "Update winpool, or try the image on one node."
        )
        return _answer([Reason("HostTooNew", Verdict.UNKNOWN, text)])
    return _answer(_process(pair) if isolation is Isolation.PROCESS else _hyper_v(pair))


def _answer(reasons: Iterator[Reason] | list[Reason]) -> Compatibility:
    found = sorted_reasons(reasons)
    return Compatibility(worst(found), found)


def _refused(pair: _Pair) -> Reason:
    text = (
        f"An image of {pair.image.build_text} does not run on a host of {pair.host.build_text}. Put the pod "
        "on nodes of its build by node.kubernetes.io/windows-build, or use an image made for "
        f"{pair.host.build}."
    )
    return Reason("BuildMismatch", Verdict.UNSUPPORTED, text)


def _host_process(runtime: RuntimeVersion | None, matrix: Matrix) -> Iterator[Reason]:
    yield Reason(
        "HostProcess", Verdict.SUPPORTED, "A HostProcess container may have an image of any version."
    )
    least = parse_release(matrix.compatibility.host_process.containerd)
    if runtime is None or least is None:
        return
    old = runtime.name == CONTAINERD and runtime.release is not None and runtime.release < least
    if runtime.name == DOCKER or old:
        text = f"HostProcess containers need containerd {least} or later. Change the runtime of the node."
        yield Reason("HostProcessUnavailable", Verdict.UNSUPPORTED, text)


def _process(pair: _Pair) -> Iterator[Reason]:
    host, image, rules = pair.host, pair.image, pair.matrix.compatibility
    if image.build < floor_of(host.build, matrix=pair.matrix):
        yield _refused(pair)
        return
    if host.build in rules.exact_revision.builds:
        yield _same_revision(pair)
        return
    if image.build != host.build:
        yield from _older_image(pair)
        return
    yield Reason("BuildsMatch", Verdict.SUPPORTED, f"Host and image are both of build {host.build_text}.")
    yield from _baseline(pair)
    if image.revision is not None and host.revision is not None and image.revision > host.revision:
        text = (
            f"The image {image} is newer than the host {host}. Such containers failed with "
            f"{rules.newer_image.error_code} until the host was patched. Patch the host first."
        )
        yield Reason("ImageNewerThanHost", Verdict.WARNED, text)


def _same_revision(pair: _Pair) -> Reason:
    host, image = pair.host, pair.image
    if host.revision is None or image.revision is None:
        text = (
            f"A host of {host.build_text} runs images of its own revision only, and one of the two is "
            f"unknown: host {host}, image {image}."
        )
        return Reason("RevisionUnknown", Verdict.UNKNOWN, text)
    if host.revision != image.revision:
        text = (
            f"A host of {host.build_text} runs images of its own revision only, and {image} is not {host}. "
            "Use an image of that revision, or patch the host to that of the image."
        )
        return Reason("RevisionMismatch", Verdict.UNSUPPORTED, text)
    return Reason("RevisionsMatch", Verdict.SUPPORTED, f"Host and image are both {host}.")


def _older_image(pair: _Pair) -> Iterator[Reason]:
    """Judge an image that is older than its host, and not older than the floor: the stable ABI."""
    host, image, runtime = pair.host, pair.image, pair.runtime
    text = f"A host of {host.build_text} runs images down to {floor_of(host.build, matrix=pair.matrix)}."
    yield Reason("StableAbi", Verdict.SUPPORTED, text)
    if runtime is None or runtime.name != CONTAINERD or runtime.release is None:
        return
    if not matches_older(runtime.release, matrix=pair.matrix):
        least = " or ".join(pair.matrix.compatibility.stable_abi_containerd.minimums)
        text = (
            f"containerd {runtime.release} takes only images of the host's own build {host.build}, and "
            f"this one is of {image.build}. Update containerd to at least {least}."
        )
        yield Reason("RuntimeMatchesExactly", Verdict.UNSUPPORTED, text)


def _baseline(pair: _Pair) -> Iterator[Reason]:
    """Judge both sides of an update that changed the interface of kernel and images of one build.

    Equal revisions are always on the same side.
    """
    host, image = pair.host.revision, pair.image.revision
    rule = next((each for each in pair.matrix.compatibility.baselines if each.build == pair.host.build), None)
    if rule is None or (host is not None and host == image):
        return
    if rule.revision is None or host is None or image is None:
        text = (
            f"Host {pair.host} and image {pair.image} must be on the same side of the update of February "
            "2020, and it is not known whether they are. Patch both beyond it."
        )
        yield Reason("BaselineUnknown", Verdict.UNKNOWN, text)
    elif (host >= rule.revision) != (image >= rule.revision):
        text = (
            f"Host {pair.host} and image {pair.image} are on two sides of the update of February 2020 "
            f"(revision {rule.revision}). Patch the older of the two beyond it."
        )
        yield Reason("BaselineMismatch", Verdict.UNSUPPORTED, text)


def _hyper_v(pair: _Pair) -> Iterator[Reason]:
    host, image = pair.host, pair.image
    if host.build in pair.matrix.compatibility.hyper_v_unknown.builds:
        text = f"Nothing is published about Hyper-V isolation on {host.build_text}. Try it on one node."
        yield Reason("HyperVUnknown", Verdict.UNKNOWN, text)
        return
    text = f"With Hyper-V isolation a host of {host.build_text} runs images of its own build and older ones"
    if pair.matrix.compatibility.hyper_v.kubernetes == "unsupported":
        text = f"{text}, but the documentation of Kubernetes says that it does not support Hyper-V isolation."
        yield Reason("HyperV", Verdict.WARNED, text, fix="Use process isolation, or ask your vendor.")
    else:
        yield Reason("HyperV", Verdict.SUPPORTED, f"{text}.")
    if pair.runtime is None or pair.runtime.name != CONTAINERD or pair.runtime.release is None:
        return
    pause = pair.matrix.sandbox(pair.runtime.release)
    if pause is not None and pause.complete and image.build not in pause.builds:
        text = (
            f"{pause.image}, which containerd {pair.runtime.release} takes by default, has no variant for "
            f"build {image.build}, so the pod can fail with HCS_E_IMAGE_MISMATCH. Set "
            f"{sandbox_key(pair.runtime.release)} to one that has."
        )
        yield Reason("PauseImageMissing", Verdict.WARNED, text)
