"""The shape of the rules in ``matrix.yaml``: which image runs on which host, and Kubernetes' own policies."""

from typing import Literal

import msgspec

from winpool.support.record import Build, MinorText, Revision, Row, RuntimeText


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
