"""What makes a run worthless, as opposed to a figure that is worse than hoped for."""

from __future__ import annotations


class BenchError(Exception):
    """The run is broken: the text says what happened and where to look."""
