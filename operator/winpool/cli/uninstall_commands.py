"""The commands of a plan: each for the cluster that was asked, and ready to be copied into a shell."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from winpool.model.node import Keys

NODES_AT_ONCE: Final = 50
"""Nodes in one command: names of 63 characters then fit a line of 4096, the limit of a terminal's input."""


class Commands:
    """Writes commands. ``flags`` choose the cluster, such as ``--context prod``; they are in each of them."""

    def __init__(self, flags: Sequence[str] = ()) -> None:
        self._flags = tuple(flags)

    def kubectl(self, *arguments: str) -> str:
        """Return the command with these arguments."""
        return shlex.join(("kubectl", *arguments, *self._flags))

    def removal(self, nodes: Sequence[str], keys: Keys) -> Iterator[str]:
        """Yield the commands that remove ``keys`` from ``nodes``, which all have them."""
        labels = [f"{key}-" for key in sorted(keys.labels)]
        annotations = [f"{key}-" for key in sorted(keys.annotations)]
        taints = [f"{key}:{effect}-" for key, effect in sorted(keys.taints)]
        for verb, what in (("taint", taints), ("label", labels), ("annotate", annotations)):
            if what:
                yield self.kubectl(verb, "nodes", *nodes, *what)
        if keys.unschedulable:
            yield self.kubectl("uncordon", *nodes)


def some_at_once(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield ``names`` in parts that fit a command."""
    for first in range(0, len(names), NODES_AT_ONCE):
        yield tuple(names[first : first + NODES_AT_ONCE])
