"""The words for what is thought of a node, and for what a row of the support matrix says.

Apart from the models, so that who only looks something up needs nothing of them.
"""

from __future__ import annotations

from enum import StrEnum


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
