"""Says what is wrong with ``matrix.yaml`` that no schema sees: gaps, contradictions, unknown sources.

The data is packaged, so it is checked when it is changed: by its tests, and before its page is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from itertools import pairwise
from typing import Any

import msgspec

from winpool.api.fields import is_os_version
from winpool.support.data import DataError, KubernetesMinor, MatrixFile, Status, WindowsRelease, read
from winpool.support.versions import parse_minor


def faults(text: str) -> tuple[str, ...]:
    """Return a sentence for each fault of the file with this text, which names the row that it is in."""
    try:
        return tuple(problems(read(text, MatrixFile, trusted=True)))
    except DataError as error:
        return error.problems


def problems(file: MatrixFile) -> Iterator[str]:
    """Yield a sentence for each fault, such as ``minors[3] (1.18): comes after 1.16, so 1.17 is missing``."""
    yield from _releases(file.releases)
    yield from _minors(file.minors)
    yield from _cells(file)
    yield from _runtimes(file)
    yield from _images(file)
    yield from _lines(file)
    yield from _revisions(file)
    yield from _features(file)
    yield from _sources(file)


def _twice(where: str, keys: Iterable[Hashable]) -> Iterator[str]:
    yield from (f"{where}: {key} is there {count} times" for key, count in Counter(keys).items() if count > 1)


def _releases(releases: tuple[WindowsRelease, ...]) -> Iterator[str]:
    by_name = {each.name: each for each in releases}
    yield from _twice("releases", (each.name for each in releases))
    alone = [each for each in releases if not each.shares_build_with]
    yield from _twice("releases", (f"build {each.build}" for each in alone))
    yield from _twice("releases", (f"tag {tag}" for each in releases for tag in each.tags))
    for index, each in enumerate(releases):
        at = f"releases[{index}] ({each.name})"
        if not is_os_version(each.name):
            yield f"{at}: the name is not one that spec.os.version allows"
        if each.mainstream_end <= each.available:
            yield f"{at}: mainstreamEnd {each.mainstream_end} is not after available {each.available}"
        if each.extended_end is not None and each.extended_end <= each.mainstream_end:
            yield f"{at}: extendedEnd {each.extended_end} is not after mainstreamEnd {each.mainstream_end}"
        if each.shares_build_with:
            other = by_name.get(each.shares_build_with)
            if other is None or other.build != each.build or other.shares_build_with:
                yield f"{at}: build {each.build} is not that of {each.shares_build_with}"


def _minors(minors: tuple[KubernetesMinor, ...]) -> Iterator[str]:
    if not minors:
        yield "minors: there is none"
    for index, each in enumerate(minors):
        at = f"minors[{index}] ({each.name})"
        if each.released is None and each.end_of_life is not None:
            yield f"{at}: has endOfLife {each.end_of_life}, and no date of release"
        elif each.released and each.end_of_life and each.end_of_life <= each.released:
            yield f"{at}: endOfLife {each.end_of_life} is not after released {each.released}"
    for index, (before, each) in enumerate(pairwise(minors), start=1):
        at = f"minors[{index}] ({each.name})"
        old, new = parse_minor(before.name), parse_minor(each.name)
        if old is None or new is None or new != (old.major, old.minor + 1):
            yield f"{at}: is not the minor that follows {before.name}; each one must be there, in order"
        if each.released is not None and (before.released is None or each.released <= before.released):
            yield f"{at}: released {each.released} is not after the release of {before.name}"


def _cells(file: MatrixFile) -> Iterator[str]:
    minors = {each.name: each for each in file.minors}
    releases = {each.name for each in file.releases}
    for index, cell in enumerate(file.windows):
        at = f"windows[{index}] (kubernetes {cell.kubernetes}, release {cell.release})"
        if cell.release not in releases:
            yield f"{at}: the release is not in releases"
        if cell.kubernetes not in minors:
            yield f"{at}: the minor is not in minors"
        elif minors[cell.kubernetes].released is None and cell.status is not Status.UNKNOWN:
            yield f"{at}: must be unknown, since this minor has no date of release"
        if cell.status is Status.NOT_LISTED:
            yield f"{at}: what is not listed has no row"
        if cell.caution and cell.status not in (Status.DOCUMENTED, Status.DOCUMENTED_LATER):
            yield f"{at}: a caution belongs to documented rows only"
    yield from _twice("windows", (f"{cell.release} in {cell.kubernetes}" for cell in file.windows))
    served = {cell.kubernetes for cell in file.windows}
    for name in minors.keys() - served:
        yield f"windows: no row for Kubernetes {name}"


def _runtimes(file: MatrixFile) -> Iterator[str]:
    minors = {each.name for each in file.minors}
    for index, each in enumerate(file.runtimes):
        if each.kubernetes not in minors:
            yield f"runtimes[{index}] (kubernetes {each.kubernetes}, {each.name}): the minor is not in minors"
    yield from _twice("runtimes", (f"{each.name} in {each.kubernetes}" for each in file.runtimes))
    told = {each.kubernetes for each in file.runtimes if each.name == "containerd"}
    for minor in file.minors:
        if minor.released is not None and minor.name not in told:
            yield f"runtimes: no row for containerd in Kubernetes {minor.name}"


def _images(file: MatrixFile) -> Iterator[str]:
    images = {each.image for each in file.pause_images}
    yield from _twice("pauseImages", (each.image for each in file.pause_images))
    yield from _twice("sandboxes", (f"containerd {each.containerd}" for each in file.sandboxes))
    for index, each in enumerate(file.sandboxes):
        if each.image not in images:
            yield f"sandboxes[{index}] (containerd {each.containerd}): {each.image} is not in pauseImages"
    abi = file.compatibility.stable_abi
    if sorted(abi.stable_builds) != list(abi.stable_builds) or abi.first_build not in abi.stable_builds:
        yield "compatibility.stableAbi: stableBuilds must be in order and have firstBuild among them"


def _lines(file: MatrixFile) -> Iterator[str]:
    yield from _twice("containerdLines", (each.line for each in file.containerd_lines))
    for index, each in enumerate(file.containerd_lines):
        if each.end_of_support <= each.released:
            at = f"containerdLines[{index}] ({each.line})"
            yield f"{at}: endOfSupport {each.end_of_support} is not after released {each.released}"
    for name in {each.containerd for each in file.sandboxes} - {each.line for each in file.containerd_lines}:
        yield f"containerdLines: no row for containerd {name}, which sandboxes has"


def _revisions(file: MatrixFile) -> Iterator[str]:
    builds = {each.build for each in file.releases}
    for index, each in enumerate(file.bad_revisions):
        at = f"badRevisions[{index}] (build {each.build})"
        if each.build not in builds:
            yield f"{at}: the build is not in releases"
        if each.last < each.first:
            yield f"{at}: last {each.last} is below first {each.first}"


def _features(file: MatrixFile) -> Iterator[str]:
    yield from _twice("features", (each.name for each in file.features))
    for index, each in enumerate(file.features):
        at = f"features[{index}] ({each.name})"
        stages = [parse_minor(text) for text in (each.alpha, each.beta, each.stable, each.removed) if text]
        if not stages:
            yield f"{at}: has no minor"
        if any(old is None or new is None or old >= new for old, new in pairwise(stages)):
            yield f"{at}: its stages are not in order"


def _sources(file: MatrixFile) -> Iterator[str]:
    cited: set[str] = set()
    for at, row in rows(file):
        cited.update(row.source)
        if not row.source:
            yield f"{at}: has no source"
        yield from (
            f"{at}: source {each} is not in sources" for each in row.source if each not in file.sources
        )
    yield from (f"sources.{each}: nothing refers to it" for each in file.sources.keys() - cited)
    yield from (
        f"sources.{name}: its url does not begin with https://"
        for name, each in file.sources.items()
        if not each.url.startswith("https://")
    )


def rows(file: MatrixFile) -> Iterator[tuple[str, Any]]:
    """Yield every row that has a source, with its path."""
    for field in msgspec.structs.fields(file):
        table = getattr(file, field.name)
        if isinstance(table, tuple):
            yield from ((f"{field.encode_name}[{index}]", row) for index, row in enumerate(table))
    for group in (file.compatibility, file.policies):
        for name in group.__struct_fields__:
            value = getattr(group, name)
            yield from ((name, row) for row in (value if isinstance(value, tuple) else (value,)))
