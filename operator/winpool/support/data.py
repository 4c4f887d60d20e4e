"""The shape of ``matrix.yaml``: a frozen struct per kind of row. Fields not named here are refused."""

from datetime import date
from enum import StrEnum
from typing import Annotated

import msgspec

_MinorText = Annotated[str, msgspec.Meta(pattern=r"^[0-9]+\.[0-9]+$")]
_RuntimeText = Annotated[str, msgspec.Meta(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+(-(alpha|beta|rc)\.[0-9]+)?$")]
_Build = Annotated[int, msgspec.Meta(ge=1)]
_Revision = Annotated[int, msgspec.Meta(ge=0)]


class Channel(StrEnum):
    """How long Microsoft services a release of Windows Server."""

    LTSC = "LTSC"
    SAC = "SAC"
    ANNUAL = "Annual"


class Status(StrEnum):
    """What the sources say of a release of Windows in a minor of Kubernetes; see the head of the file."""

    DOCUMENTED = "documented"
    DOCUMENTED_LATER = "documentedLater"
    RELEASE_NOTES_ONLY = "releaseNotesOnly"
    VENDOR_ONLY = "vendorOnly"
    DOCUMENTED_STALE = "documentedStale"
    DROPPED = "dropped"
    UNKNOWN = "unknown"
    NOT_LISTED = "notListed"
    """Never written into the file: what a lookup finds where there is no row."""


class Stage(StrEnum):
    """How ready a runtime was for Windows in a minor of Kubernetes."""

    ABSENT = "absent"
    ALPHA = "alpha"
    BETA = "beta"
    STABLE = "stable"


class _Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """What every row has: where it comes from, and how old that is. ``note`` is for people."""

    as_of: date
    source: tuple[str, ...]
    note: str = ""


class WindowsRelease(_Row, frozen=True, kw_only=True):
    """A release of Windows Server, under the name that ``spec.os.version`` has for it.

    Nodes of a build that two releases share are judged as the one that the other ``shares_build_with``.
    """

    name: str
    channel: Channel
    version: str
    build: _Build
    available: date
    mainstream_end: date
    extended_end: date | None = None
    min_revision: _Revision | None = None
    tags: tuple[str, ...] = ()
    shares_build_with: str = ""

    @property
    def end_of_support(self) -> date:
        """The last day on which Microsoft supports it: of extended support where there is one."""
        return self.extended_end or self.mainstream_end


class KubernetesMinor(_Row, frozen=True, kw_only=True):
    """A minor of Kubernetes. Without ``released`` it was not out when the sources were read."""

    name: _MinorText
    released: date | None = None
    end_of_life: date | None = None


class Cell(_Row, frozen=True, kw_only=True):
    """What the sources say of one release in one minor."""

    kubernetes: _MinorText
    release: str
    status: Status
    caution: str = ""


class Runtime(_Row, frozen=True, kw_only=True):
    """A container runtime under the kubelet of one minor."""

    kubernetes: _MinorText
    name: str
    stage: Stage = Stage.STABLE
    minimum: _RuntimeText = "0.0.0"
    recommended: tuple[_RuntimeText, ...] = ()


class PauseImage(_Row, frozen=True, kw_only=True):
    """A pause image and the builds it has variants for; there may be more where it is not ``complete``."""

    image: str
    builds: tuple[_Build, ...]
    complete: bool = True


class Sandbox(_Row, frozen=True, kw_only=True):
    """The pause image that a line of containerd takes by default."""

    containerd: _MinorText
    image: str


class StableAbi(_Row, frozen=True, kw_only=True):
    """From which build on hosts run older images, and which builds are the floors of that."""

    first_build: _Build
    stable_builds: tuple[_Build, ...]


class StableAbiContainerd(_Row, frozen=True, kw_only=True):
    """The first patch of each line of containerd that lets an older image through to such hosts."""

    minimums: tuple[_RuntimeText, ...]


class Builds(_Row, frozen=True, kw_only=True):
    """Builds of hosts that a rule is about."""

    builds: tuple[_Build, ...]


class Baseline(_Row, frozen=True, kw_only=True):
    """An update that parts images and hosts of one build in two; None where its revision is not known."""

    build: _Build
    revision: _Revision | None = None


class NewerImage(_Row, frozen=True, kw_only=True):
    """The error that images with a newer revision than their host were seen to fail with."""

    error_code: str


class HostProcess(_Row, frozen=True, kw_only=True):
    """The first containerd that runs HostProcess containers."""

    containerd: _RuntimeText


class Skew(_Row, frozen=True, kw_only=True):
    """How many minors older than its API server a kubelet may be."""

    minors: int
    before: _MinorText
    minors_before: int


class Kep116(_Row, frozen=True, kw_only=True):
    """In how many minors after its first a release is supported at least."""

    further_minors: int


class CompatibilityRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The constants of the rules that ``compatible`` goes by."""

    stable_abi: StableAbi
    stable_abi_containerd: StableAbiContainerd
    exact_revision: Builds
    baselines: tuple[Baseline, ...]
    newer_image: NewerImage
    hyper_v_unknown: Builds = msgspec.field(name="hyperVUnknown")
    host_process: HostProcess


class Policies(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Rules of Kubernetes itself."""

    skew: Skew
    kep116: Kep116


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where something was read."""

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
    compatibility: CompatibilityRules
    policies: Policies
    sources: dict[str, Source]
