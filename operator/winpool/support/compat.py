"""Judges whether a node runs an image, by the Windows of both and by the container runtime of the node.

The build decides, and the revision (the monthly patch) usually does not. From build 20348 on, hosts run older
images down to a floor, the newest stable build that is older than the host; before that, only their own
build. The rules are ``compatibility`` in ``matrix.yaml``, above all of
https://learn.microsoft.com/virtualization/windowscontainers/deploy-containers/version-compatibility.

What counts of an image is ``os.version`` of its index or configuration, which only a registry can show. A tag
is a guess that may warn, and must never deny: those of Microsoft's base images, and of images whose
publishers follow them, name the release (``nanoserver-1809``, ``windowsservercore-ltsc2022``,
``10.0.20348.2159``, ``20H2-KB4592438``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from functools import lru_cache
from typing import Final

import msgspec

from winpool.api.matrix import Verdict
from winpool.support.data import CompatibilityRules, Runtime, Stage
from winpool.support.matrix import Matrix
from winpool.support.servicing import Reason, sorted_reasons, worst
from winpool.support.versions import (
    CONTAINERD,
    Minor,
    Release,
    RuntimeVersion,
    WindowsVersion,
    containerd_of,
    parse_release,
    parse_runtime,
    parse_windows,
)

IMAGE_MISMATCH: Final = re.compile(r"0x[8c]0370101\b", re.IGNORECASE)
"""HCS_E_IMAGE_MISMATCH, with which Windows refuses to start an image for another build. Its text is in the
language of Windows, and its number is not.
https://learn.microsoft.com/virtualization/api/hcs/reference/hcshresult"""

OTHER_BUILD: Final = re.compile(
    f"{IMAGE_MISMATCH.pattern}|container operating system does not match the host operating system"
    "|operating system of the container does not match the operating system of the host"
    r"|(?P<releases>a windows version \S{1,40}-based image is incompatible with a \S{1,40})",
    re.IGNORECASE,
)
"""The same, and its texts by containerd and by Docker, in English. The last names both releases."""

NO_VARIANT: Final = re.compile(
    "no match for platform|no matching manifest for"
    "|image operating system .{1,40} cannot be used on this platform",
    re.IGNORECASE,
)
"""There is no image for the platform of the node, on any OS: by containerd, and by Docker."""

_read: Final = lru_cache(maxsize=256)(parse_release)
"""Reads the versions that the support matrix names. Nodes name others, which it does not see."""


def floor_of(host: int, *, matrix: Matrix) -> int:
    """Return the oldest build of images that a host of build ``host`` runs in process isolation."""
    abi = matrix.file.compatibility.stable_abi
    if host < abi.first_build:
        return host
    return max((each for each in abi.stable_builds if each < host), default=abi.first_build)


def matches_older(containerd: Release, *, matrix: Matrix) -> bool:
    """Whether ``containerd`` accepts an image that is older than its host at all."""
    texts = matrix.file.compatibility.stable_abi_containerd.minimums
    minimums = [each for each in map(_read, texts) if each is not None]
    newest = max(minimums)
    same_line = [each for each in minimums if each.line == containerd.line]
    return containerd >= newest or any(containerd >= each for each in same_line)


def runs_build(host: int, image: int, *, containerd: Release, matrix: Matrix) -> bool:
    """Whether ``containerd`` runs images of build ``image`` as processes of a host of build ``host``."""
    if host == image:
        return True
    return matches_older(containerd, matrix=matrix) and floor_of(host, matrix=matrix) <= image <= host


_BASE_IMAGES: Final = frozenset({"nanoserver", "windowsservercore", "servercore", "server", "windows"})
"""Words before a release in a tag, and last parts of the names of Microsoft's own base images."""

_KB: Final = re.compile(r"KB\d{6,8}", re.ASCII | re.IGNORECASE)
_FULL: Final = re.compile(r"10\.0\.\d{5}(?:\.\d{1,10})?", re.ASCII)
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", re.ASCII)
"""https://github.com/opencontainers/distribution-spec/blob/v1.1.0/spec.md#pulling-manifests"""


def guess_version(reference: str, *, matrix: Matrix) -> WindowsVersion | None:
    """Guess from the tag of ``reference`` (``registry:5000/team/app:1.2-ltsc2022``) what it is made for.

    None where the tag says nothing, names several releases, or there is no tag. A bare number such as 1809
    counts only where it is very likely a release: as the whole tag of one of Microsoft's base images,
    after the name of one, or before the number of an update.
    """
    name, tag = _split(reference)
    if not _TAG.fullmatch(tag):
        return None
    found = set(_named(tag, image=name.rpartition("/")[2].lower(), matrix=matrix))
    builds = {each.build for each in found}
    if len(builds) != 1:
        return None
    return max(found, key=lambda each: -1 if each.revision is None else each.revision)


def _split(reference: str) -> tuple[str, str]:
    """Return name and tag. A colon before a slash is a port, and what follows ``@`` is a digest."""
    before, at, _ = reference.partition("@")
    name, colon, tag = before.rpartition(":")
    if not colon or "/" in tag:
        return before, ""
    return (name, tag) if not at or tag else (before, "")


def _named(tag: str, *, image: str, matrix: Matrix) -> Iterator[WindowsVersion]:
    """Yield what every word of ``tag`` names."""
    builds = {word.lower(): each.build for each in matrix.file.releases for word in each.tags}
    words = tag.lower().replace("_", "-").split("-")
    before = ["", *words[:-1]]
    after = [*words[1:], ""]
    for word, previous, following in zip(words, before, after, strict=True):
        if _FULL.fullmatch(word):
            if (version := parse_windows(word)) is not None:
                yield version
        elif word in builds and (
            not word.isdigit()
            or previous in _BASE_IMAGES
            or _KB.fullmatch(following)
            or (len(words) == 1 and image in _BASE_IMAGES)
        ):
            yield WindowsVersion(builds[word])


_TITLE: Final = re.compile(r"windows server,?(?: version)? (?P<name>[a-z0-9]+)\b.*", re.IGNORECASE)
"""``Windows Server 2022 Datacenter``, ``Windows Server, version 20H2``."""

_BASE_IMAGE: Final = "windowsservercore"
"""A tag is read as one of Microsoft's own base images, where a bare 1809 counts too."""


def release_named(text: str, *, matrix: Matrix) -> str | None:
    """Return the release that ``text`` names, as ``spec.os.version`` writes it; None where it names none.

    It may be that name, a build (``20348``, ``10.0.20348``, ``10.0.20348.1607``), a tag of a base image
    (``ltsc2022``, ``windowsservercore-ltsc2022``) or a title (``Windows Server 2022``).
    """
    given = text.strip()
    titled = _TITLE.fullmatch(given)
    name = titled["name"] if titled else given
    found = next((each for each in matrix.releases if each.lower() == name.lower()), None)
    if found is not None or titled:
        return found
    version = (
        parse_windows(f"10.0.{given}" if given.isdigit() else given)
        or guess_version(f"{_BASE_IMAGE}:{given}", matrix=matrix)
    )  # fmt: skip
    release = matrix.builds.get(version.build) if version else None
    return release.name if release else None


DOCKER: Final = "docker"

_PINNED_FROM: Final = 2
"""The first major of containerd whose CRI plugin has its own table for pinned images."""


def runtime_reasons(
    text: str, *, kubelet: Minor | None, host: WindowsVersion | None, matrix: Matrix
) -> Iterator[Reason]:
    """Judge the runtime that the node reports as ``text``, for a kubelet and a host that may be unknown.

    The kubelet's minor counts, not the control plane's: the kubelet uses the runtime.
    """
    runtime = parse_runtime(text)
    if runtime is None or runtime.release is None:
        yield Reason(
            "RuntimeUnknown",
            Verdict.UNKNOWN,
            f"The version of the container runtime {_short(text)} cannot be read.",
            fix="Check nodeInfo.containerRuntimeVersion of the node.",
            cause="containerRuntimeVersion",
        )
        return
    if kubelet is not None:
        yield from _for_minor(runtime, runtime.release, kubelet, matrix)
    if host is not None and runtime.name == CONTAINERD:
        yield from _pause(runtime.release, host, matrix)


def _for_minor(runtime: RuntimeVersion, release: Release, minor: Minor, matrix: Matrix) -> Iterator[Reason]:
    known = matrix.minors.get(minor)
    if known is None or known.released is None:
        return  # the verdict on release and minor says so already
    row = matrix.runtimes.get((minor, runtime.name))
    if row is None:
        yield Reason(
            "RuntimeNotListed",
            Verdict.UNKNOWN,
            f"The support matrix has nothing about {runtime.name} on Windows with Kubernetes {minor}.",
            fix="Use containerd.",
        )
    elif row.stage is Stage.ABSENT:
        yield Reason(
            "RuntimeUnsupported",
            Verdict.UNSUPPORTED,
            f"Kubernetes {minor} cannot use {runtime.name} on Windows.",
            fix="Upgrade the kubelet, or change the runtime.",
        )
    elif (minimum := _read(row.minimum)) is not None and release < minimum:
        yield Reason(
            "RuntimeTooOld",
            Verdict.UNSUPPORTED,
            f"{runtime.name} is too old for Kubernetes {minor}, which needs at least {minimum}.",
            fix=f"Update {runtime.name} on the node.",
        )
    else:
        yield from _advice(row, release, minor)


def _advice(row: Runtime, release: Release, minor: Minor) -> Iterator[Reason]:
    if row.stage is Stage.ALPHA:
        yield Reason(
            "RuntimeAlpha",
            Verdict.WARNED,
            f"{row.name} on Windows is alpha in Kubernetes {minor}.",
            fix="Upgrade the kubelet, or change the runtime.",
        )
    recommended = [found for each in row.recommended if (found := _read(each))]
    if not recommended or release.line > max(each.line for each in recommended):
        return
    of_line = [each for each in recommended if each.line == release.line]
    if not of_line or release < min(of_line):
        yield Reason(
            "RuntimeNotRecommended",
            Verdict.WARNED,
            f"{row.name} is older than recommended for Kubernetes {minor} "
            f"({', '.join(f'{each} or later' for each in row.recommended)}).",
            fix=f"Update {row.name} on the node.",
        )


def _pause(containerd: Release, host: WindowsVersion, matrix: Matrix) -> Iterator[Reason]:
    """Warn where no variant of the default pause image is known to run on ``host``.

    This is only a warning: the node's configuration may name another image, as that of vendors does, and the
    operator cannot see it.
    """
    image = matrix.sandboxes.get(containerd.line)
    if image is None or not image.complete or host.build not in matrix.builds:
        return
    if not any(runs_build(host.build, build, containerd=containerd, matrix=matrix) for build in image.builds):
        yield Reason(
            "PauseImageMissing",
            Verdict.WARNED,
            f"The default pause image of containerd {containerd}, {image.image}, is not known to have a "
            f"variant for build {host.build}. Without a variant no pod starts. The nodes do not report which "
            "pause image they use.",
            fix=f"Check {sandbox_key(containerd)} in what `containerd config dump` prints on the node, and "
            f"set it to an image that has a variant for {host.build}.",
        )


def sandbox_key(containerd: Release) -> str:
    """Return the key of containerd's configuration that names the pause image.

    https://github.com/containerd/containerd/blob/v2.4.2/docs/cri/config.md
    """
    return "pinned_images.sandbox" if containerd.major >= _PINNED_FROM else "sandbox_image"


def _short(text: str) -> str:
    return repr(text[:60]) if text else "nothing"


class Isolation(StrEnum):
    """How a container is isolated from its host."""

    PROCESS = "Process"
    HYPER_V = "HyperV"


class Compatibility(msgspec.Struct, frozen=True):
    """Whether an image runs on a host, and every reason, the worst first."""

    verdict: Verdict
    reasons: tuple[Reason, ...]


class _Pair(msgspec.Struct, frozen=True):
    """An image and its host. ``containerd`` is None where the runtime is another, or its version unknown."""

    host: WindowsVersion
    image: WindowsVersion
    containerd: Release | None
    matrix: Matrix

    @property
    def rules(self) -> CompatibilityRules:
        """The constants of the rules."""
        return self.matrix.file.compatibility


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
    if host_process:
        return _answer(_host_process(runtime, matrix))
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
    pair = _Pair(ours, theirs, containerd_of(runtime), matrix)
    if theirs.build > ours.build:
        return _answer([_refused(pair)])
    if ours.build > max(pair.rules.stable_abi.stable_builds):
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


def _host_process(runtime: str, matrix: Matrix) -> Iterator[Reason]:
    yield Reason(
        "HostProcess", Verdict.SUPPORTED, "A HostProcess container may have an image of any version."
    )
    least, containerd = _read(matrix.file.compatibility.host_process.containerd), containerd_of(runtime)
    if least is None:
        return
    named = parse_runtime(runtime)
    is_docker = named is not None and named.name == DOCKER
    if is_docker or (containerd is not None and containerd < least):
        text = f"HostProcess containers need containerd {least} or later. Change the runtime of the node."
        yield Reason("HostProcessUnavailable", Verdict.UNSUPPORTED, text)


def _process(pair: _Pair) -> Iterator[Reason]:
    host, image, rules = pair.host, pair.image, pair.rules
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
    host, image, containerd = pair.host, pair.image, pair.containerd
    text = f"A host of {host.build_text} runs images down to {floor_of(host.build, matrix=pair.matrix)}."
    yield Reason("StableAbi", Verdict.SUPPORTED, text)
    if containerd is not None and not matches_older(containerd, matrix=pair.matrix):
        least = " or ".join(pair.rules.stable_abi_containerd.minimums)
        text = (
            f"containerd {containerd} takes only images of the host's own build {host.build}, and "
            f"this one is of {image.build}. Update containerd to at least {least}."
        )
        yield Reason("RuntimeMatchesExactly", Verdict.UNSUPPORTED, text)


def _baseline(pair: _Pair) -> Iterator[Reason]:
    """Judge both sides of an update that changed the interface of kernel and images of one build.

    Equal revisions are always on the same side.
    """
    host, image = pair.host.revision, pair.image.revision
    rule = next((each for each in pair.rules.baselines if each.build == pair.host.build), None)
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
    host, image, containerd = pair.host, pair.image, pair.containerd
    if host.build in pair.rules.hyper_v_unknown.builds:
        text = f"Nothing is published about Hyper-V isolation on {host.build_text}. Try it on one node."
        yield Reason("HyperVUnknown", Verdict.UNKNOWN, text)
        return
    text = f"With Hyper-V isolation a host of {host.build_text} runs images of its own build and older ones"
    if pair.rules.hyper_v.kubernetes == "unsupported":
        text = f"{text}, but the documentation of Kubernetes says that it does not support Hyper-V isolation."
        yield Reason("HyperV", Verdict.WARNED, text, fix="Use process isolation, or ask your vendor.")
    else:
        yield Reason("HyperV", Verdict.SUPPORTED, f"{text}.")
    if containerd is None:
        return
    pause = pair.matrix.sandboxes.get(containerd.line)
    if pause is not None and pause.complete and image.build not in pause.builds:
        text = (
            f"{pause.image}, which containerd {containerd} takes by default, has no variant for build "
            f"{image.build}, so the pod can fail with HCS_E_IMAGE_MISMATCH. Set {sandbox_key(containerd)} to "
            "one that has."
        )
        yield Reason("PauseImageMissing", Verdict.WARNED, text)
