"""Why there is no release."""

from __future__ import annotations


class ReleaseError(Exception):
    """There is nothing that may be published; the text says what is wrong and what to do."""
