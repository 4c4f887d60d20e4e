"""A pool's own rows of the support matrix: what it knows better than the built-in data.

A field that is set replaces the built-in one; of revision floors the highest holds. A row that
contradicts itself or the rest of the spec is refused here, so that no verdict needs to choose.

The words for what is thought of a node, and for what a row of the support matrix says.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import Field

from winpool.api.fields import (
    DATE_PATTERN,
    KUBERNETES_MINOR_PATTERN,
    WINDOWS_BUILD_PATTERN,
    Revision,
    WindowsRelease,
    is_date,
    minor_number,
    of_form,
)
from winpool.api.model import ApiModel, Rule, Validation


class Verdict(StrEnum):
    """What the support matrix says of a node, or of an image on a node, the best first."""

    SUPPORTED = "Supported"
    WARNED = "Warned"
    UNKNOWN = "Unknown"
    UNSUPPORTED = "Unsupported"


class RowVerdict(StrEnum):
    """What a row wants its release to be judged as, instead of what the built-in data says of it.

    It takes the place of the verdict on release and minor, and of nothing else: Allow does not lift the end
    of support (``endOfSupport`` does), a revision floor, the version skew, a runtime that is too old, a
    pause image without a variant, a label that disagrees, or anything that is unknown about the node itself.
    """

    ALLOW = "Allow"
    WARN = "Warn"
    DENY = "Deny"


MAX_ROWS: Final = 16
"""More than there are releases of Windows Server that a supported Kubernetes ever ran on."""

KubernetesMinor = Annotated[
    str,
    Field(max_length=32),
    of_form(
        KUBERNETES_MINOR_PATTERN,
        "must be a Kubernetes minor version from '1.10' on, in quotes, such as '1.34': without quotes 1.30 "
        "is the number 1.3",
    ),
]


class KubernetesVersions(ApiModel):
    """A range of Kubernetes minor versions, both ends included; an end that is absent is open."""

    min: KubernetesMinor | None = None
    """The oldest minor version of the kubelet, such as "1.30". A string, so it needs quotes. If absent, there
    is no lower limit."""
    max: KubernetesMinor | None = None
    """The newest minor version of the kubelet, such as "1.34". A string, so it needs quotes. If absent, there
    is no upper limit."""

    rules: ClassVar[tuple[Validation, ...]] = (
        Rule(
            "has(self.min) || has(self.max)",
            "must have `min`, `max` or both",
            lambda self: self.min is not None or self.max is not None,
        ),
        Rule(
            "!has(self.min) || !has(self.max) || "
            # What is no minor is the other rule's to refuse, and int() would fail on it.
            f"!self.min.matches('{KUBERNETES_MINOR_PATTERN}') || "
            f"!self.max.matches('{KUBERNETES_MINOR_PATTERN}') || "
            "int(self.min.substring(2)) <= int(self.max.substring(2))",
            "must be at least `min`",
            lambda self: (
                self.min is None or self.max is None or minor_number(self.min) <= minor_number(self.max)
            ),
            at=".max",
        ),
    )


class MatrixRow(ApiModel):
    """A row of the support matrix about one Windows Server release; an absent field is as built in."""

    os_version: WindowsRelease
    """Windows Server release of the row, such as "2022" or "23H2". A string, so a number needs quotes.
    Required, once per list."""
    build: (
        Annotated[
            str,
            Field(max_length=64),
            of_form(
                WINDOWS_BUILD_PATTERN,
                "must be a build of Windows without its revision, such as '10.0.26100'",
            ),
        ]
        | None
    ) = None
    """The build of the release, such as 10.0.26100, if the release is newer than the built-in data. Nodes of
    this build are judged as this release. Must not contradict the built-in data. A string. If absent, the
    built-in value applies."""
    kubernetes_versions: KubernetesVersions | None = None
    """Kubernetes minor versions that the kubelets of this release may have. A node outside of them is
    unsupported. If absent, the built-in value applies."""
    min_revision: Revision | None = None
    """The lowest supported revision: the last number of 10.0.20348.681. A node below it is unsupported. The
    highest of this value, `os.minRevision` and the built-in value applies. An integer. If absent, the
    built-in value applies."""
    end_of_support: (
        Annotated[
            str,
            Field(max_length=64),
            Rule(
                f"self.matches('{DATE_PATTERN}') && !format.date().validate(self).hasValue()",
                "must be a date that exists, as year-month-day, such as '2027-04-01'",
                is_date,
            ),
        ]
        | None
    ) = None
    """The last day, in UTC, on which the release is supported, such as 2027-04-01. A string of the form
    year-month-day. If absent, the built-in value applies."""
    verdict: RowVerdict | None = None
    """How nodes of the release are judged. Allow: supported. Warn: supported with a warning. Deny:
    unsupported. Floors, dates and version skew still apply. A string. If absent, the built-in value
    applies."""
    reason: str = Field(default_factory=str, max_length=256)
    """Why the row exists, for people who read the verdict. A string of at most 256 characters, empty if
    absent."""

    rules: ClassVar[tuple[Validation, ...]] = (
        Rule(
            "has(self.build) || has(self.kubernetesVersions) || has(self.minRevision) || "
            "has(self.endOfSupport) || has(self.verdict)",
            "must set at least one of `build`, `kubernetesVersions`, `minRevision`, `endOfSupport` and "
            "`verdict`: a row without them has no effect",
            lambda self: (
                (self.build, self.kubernetes_versions, self.min_revision, self.end_of_support, self.verdict)
                != (None,) * 5
            ),
        ),
        Rule(
            "!has(self.kubernetesVersions) || !has(self.verdict) || self.verdict != 'Deny'",
            "must be absent if `verdict` is Deny: a denied release is unsupported with every version of "
            "Kubernetes; to deny it outside a range, set the range and verdict Allow or Warn",
            lambda self: self.kubernetes_versions is None or self.verdict is not RowVerdict.DENY,
            at=".kubernetesVersions",
        ),
    )
