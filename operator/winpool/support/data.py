"""Declares the shape of ``matrix.yaml``, a frozen struct per kind of row, and reads YAML with its faults.

The packaged data and the cluster-wide file are read as ``kubectl`` reads YAML: a date stays the text that was
written. A key that is there twice is refused, since one of the two would be lost without a notice, and so is
a field that is not named here.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from datetime import date
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

import msgspec
import yaml
from yaml import CSafeLoader

_T = TypeVar("_T")

_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"
_AT: Final = re.compile(r"^(?P<what>.*?) - at `\$(?P<path>.*)`$", re.DOTALL)
_EXPECTED: Final = re.compile(r"^Expected `(?P<wanted>[^`]*)`, got `(?P<found>[^`]*)`$")

_TAG_ERRORS: Final = (ValueError, KeyError, IndexError, AttributeError, TypeError)
"""What PyYAML raises where a tag and its value do not fit: ``!!bool maybe``, ``!!int ""``."""

_WORDS: Final = {
    "object": "a map",
    "array": "a list",
    "str": "a text",
    "int": "a whole number",
    "null": "nothing",
    "bool": "true or false",
    "float": "a fraction",
}
"""The types of msgspec, as they are called in sentences for people."""


class DataError(ValueError):
    """Data that cannot be used. ``problems`` has a sentence for each fault that says where it is."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class _Strict(yaml.constructor.SafeConstructor):
    """Keys that are there twice are an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Build the mapping of ``node``."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key.value!r} is there twice", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


_WITHOUT_DATES = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class _Loader(_Strict, yaml.SafeLoader):
    """The safe loader without dates, and without keys that are there twice."""

    yaml_implicit_resolvers = _WITHOUT_DATES


class _QuickLoader(_Strict, CSafeLoader):
    """The same in C: it takes a sixth of the time, but deep nesting ends the process."""

    yaml_implicit_resolvers = _WITHOUT_DATES


def read(text: str, kind: type[_T], *, trusted: bool = False) -> _T:
    """Read YAML as ``kind``. Raises DataError with a sentence that names the line or the field.

    ``trusted`` is for data of our own, which is large: what users write is read by the slower, safe loader.
    """
    try:
        content = (_QuickLoader if trusted else _Loader)(text).get_single_data()
    except RecursionError:
        raise DataError(("it is nested too deeply to be read",)) from None
    except (yaml.YAMLError, *_TAG_ERRORS) as error:
        raise DataError((_of_yaml(error),)) from None
    return convert(content, kind)


def convert(content: Any, kind: type[_T]) -> _T:
    """Convert ``content``, as read from YAML or JSON, to ``kind``. Raises DataError with the field."""
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise DataError((_of_schema(str(error)),)) from None
    except RecursionError:
        raise DataError(("it is nested too deeply to be read",)) from None


def _of_yaml(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    what = getattr(error, "problem", None) or str(error)
    return f"line {mark.line + 1}: {what}" if mark is not None else f"not YAML: {what}"


def _of_schema(text: str) -> str:
    found = _AT.match(text)
    what, path = (found["what"], found["path"].removeprefix(".")) if found else (text, "")
    if expected := _EXPECTED.match(what):
        wanted, got = expected["wanted"], expected["found"]
        what = f"must be {_words(wanted)}, not {_words(got)}"
        if wanted == "str" and got in ("int", "float"):
            what = "must be a text: put it in quotes, or 1.30 becomes 1.3"
    return f"{path}: {what}" if path else what


def _words(types: str) -> str:
    return " or ".join(_WORDS.get(each, each) for each in types.split(" | "))


MinorText: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[0-9]+\.[0-9]+$")]
RuntimeText: TypeAlias = Annotated[
    str, msgspec.Meta(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+(-(alpha|beta|rc)\.[0-9]+)?$")
]
Build: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
Revision: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """What every row has: its sources, and their date. ``note`` is for people."""

    as_of: date
    source: tuple[str, ...]
    note: str = ""


class StableAbi(Row, frozen=True, kw_only=True):
    """From which build on hosts run older images, and which builds are the floors for that."""

    first_build: Build
    stable_builds: tuple[Build, ...]


class StableAbiContainerd(Row, frozen=True, kw_only=True):
    """The first patch of each line of containerd that accepts an older image on such hosts."""

    minimums: tuple[RuntimeText, ...]


class Builds(Row, frozen=True, kw_only=True):
    """Builds of hosts that a rule is about."""

    builds: tuple[Build, ...]


class Baseline(Row, frozen=True, kw_only=True):
    """An update that divides images and hosts of one build; None where its revision is not known."""

    build: Build
    revision: Revision | None = None


class NewerImage(Row, frozen=True, kw_only=True):
    """The error with which images with a newer revision than their host have failed."""

    error_code: str


class HyperV(Row, frozen=True, kw_only=True):
    """What the documentation of Kubernetes says of Hyper-V isolation, which Windows itself has."""

    kubernetes: Literal["unsupported", "supported"]


class HostProcess(Row, frozen=True, kw_only=True):
    """The first containerd that runs HostProcess containers."""

    containerd: RuntimeText


class Skew(Row, frozen=True, kw_only=True):
    """How many minors older than its API server a kubelet may be."""

    minors: int
    before: MinorText
    minors_before: int


class Kep116(Row, frozen=True, kw_only=True):
    """In how many minors after its first a release is supported at least."""

    further_minors: int


class CompatibilityRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The constants of the rules of ``compatible``."""

    stable_abi: StableAbi
    stable_abi_containerd: StableAbiContainerd
    exact_revision: Builds
    baselines: tuple[Baseline, ...]
    newer_image: NewerImage
    hyper_v_unknown: Builds = msgspec.field(name="hyperVUnknown")
    hyper_v: HyperV
    host_process: HostProcess


class Policies(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Rules of Kubernetes itself."""

    skew: Skew
    kep116: Kep116


class Channel(StrEnum):
    """How long Microsoft services a release of Windows Server."""

    LTSC = "LTSC"
    SAC = "SAC"
    ANNUAL = "Annual"


class Status(StrEnum):
    """What the sources say of a release in a minor of Kubernetes; see the head of ``matrix.yaml``."""

    DOCUMENTED = "documented"
    DOCUMENTED_LATER = "documentedLater"
    RELEASE_NOTES_ONLY = "releaseNotesOnly"
    VENDOR_ONLY = "vendorOnly"
    DOCUMENTED_STALE = "documentedStale"
    DROPPED = "dropped"
    UNKNOWN = "unknown"
    NOT_LISTED = "notListed"
    """It is never in the file: the result of a lookup without a row."""


class Stage(StrEnum):
    """How stable a runtime was on Windows in a minor of Kubernetes."""

    ABSENT = "absent"
    ALPHA = "alpha"
    BETA = "beta"
    STABLE = "stable"


class WindowsRelease(Row, frozen=True, kw_only=True):
    """A release of Windows Server, under the name that ``spec.os.version`` has for it.

    Nodes of a build that two releases share are judged as the one that the other ``shares_build_with``.
    ``esu`` says what can be bought after the end of support; it is reported and changes no date.
    """

    name: str
    channel: Channel
    version: str
    build: Build
    available: date
    mainstream_end: date
    extended_end: date | None = None
    esu: str = ""
    min_revision: Revision | None = None
    tags: tuple[str, ...] = ()
    shares_build_with: str = ""

    @property
    def end_of_support(self) -> date:
        """The last day on which Microsoft supports it: of extended support where there is one."""
        return self.extended_end or self.mainstream_end


class KubernetesMinor(Row, frozen=True, kw_only=True):
    """A minor of Kubernetes. Without ``released`` it was not out when the sources were read.

    One that is out may be without ``end_of_life``: then no source says when that is.
    """

    name: MinorText
    released: date | None = None
    end_of_life: date | None = None


class Cell(Row, frozen=True, kw_only=True):
    """What the sources say of one release in one minor."""

    kubernetes: MinorText
    release: str
    status: Status
    caution: str = ""


class Runtime(Row, frozen=True, kw_only=True):
    """A container runtime under the kubelet of one minor."""

    kubernetes: MinorText
    name: str
    stage: Stage = Stage.STABLE
    minimum: RuntimeText = "0.0.0"
    recommended: tuple[RuntimeText, ...] = ()


class PauseImage(Row, frozen=True, kw_only=True):
    """A pause image and the builds that it has variants for; where not ``complete``, there may be more."""

    image: str
    builds: tuple[Build, ...]
    complete: bool = True


class Sandbox(Row, frozen=True, kw_only=True):
    """The pause image that a line of containerd takes by default."""

    containerd: MinorText
    image: str


class ContainerdLine(Row, frozen=True, kw_only=True):
    """How long the containerd project itself supports a line; ``end_of_support`` is the last day."""

    line: MinorText
    released: date
    end_of_support: date


class BadRevisions(Row, frozen=True, kw_only=True):
    """Revisions of one build, both ends included, that are known to break what ``affects`` names."""

    build: Build
    first: Revision
    last: Revision
    affects: str
    fix: str


class Feature(Row, frozen=True, kw_only=True):
    """A feature and its minors by stage; None for a stage that it skipped or that no source names."""

    name: str
    alpha: MinorText | None = None
    beta: MinorText | None = None
    stable: MinorText | None = None
    removed: MinorText | None = None


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The source of a row."""

    url: str
    note: str = ""


class MatrixFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The whole file."""

    releases: tuple[WindowsRelease, ...]
    minors: tuple[KubernetesMinor, ...]
    windows: tuple[Cell, ...]
    runtimes: tuple[Runtime, ...]
    pause_images: tuple[PauseImage, ...]
    sandboxes: tuple[Sandbox, ...]
    containerd_lines: tuple[ContainerdLine, ...]
    bad_revisions: tuple[BadRevisions, ...]
    features: tuple[Feature, ...]
    compatibility: CompatibilityRules
    policies: Policies
    sources: dict[str, Source]
