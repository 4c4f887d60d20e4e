"""What is left alone on a node, since the record that names it may be forged, in words and as commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from winpool.objects.keys import Keys


def named(left: Keys) -> str:
    """Name the labels and taints in the words of kubectl."""
    labels = [f"label {key}" for key in sorted(left.labels)]
    return ", ".join((*labels, *(f"taint {key}:{effect}" for key, effect in sorted(left.taints))))


def removal(node: str, left: Keys) -> str:
    """Return the commands that take them off ``node``."""
    labels = " ".join(f"{key}-" for key in sorted(left.labels))
    taints = " ".join(f"{key}:{effect}-" for key, effect in sorted(left.taints))
    commands = [f"kubectl label node {node} {labels}"] if labels else []
    commands += [f"kubectl taint node {node} {taints}"] if taints else []
    return "; ".join(commands)
