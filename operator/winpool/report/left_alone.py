"""What is left alone on a node, since the record that names it may be forged, in words and as commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from winpool.objects.keys import Keys


def named(left: Keys) -> str:
    """Name them in the words of kubectl."""
    return ", ".join(
        (
            *(f"label {key}" for key in sorted(left.labels)),
            *(f"annotation {key}" for key in sorted(left.annotations)),
            *(f"taint {key}:{effect}" for key, effect in sorted(left.taints)),
            *(("spec.unschedulable",) if left.unschedulable else ()),
        )
    )


def removal(node: str, left: Keys) -> str:
    """Return the commands that remove them from ``node``."""
    labels = " ".join(f"{key}-" for key in sorted(left.labels))
    taints = " ".join(f"{key}:{effect}-" for key, effect in sorted(left.taints))
    annotations = " ".join(f"{key}-" for key in sorted(left.annotations))
    commands = [f"kubectl label node {node} {labels}"] if labels else []
    commands += [f"kubectl annotate node {node} {annotations}"] if annotations else []
    commands += [f"kubectl taint node {node} {taints}"] if taints else []
    commands += [f"kubectl uncordon {node}"] if left.unschedulable else []
    return "; ".join(commands)
