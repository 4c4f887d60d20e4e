"""The shape of ``matrix.yaml``: a frozen struct per kind of row. Fields not named here are refused."""

from datetime import date
from enum import StrEnum

import msgspec

from winpool.support.record import Build, MinorText, Revision, Row, RuntimeText
from winpool.support.rules import CompatibilityRules, Policies


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
