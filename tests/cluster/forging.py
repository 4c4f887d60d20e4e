"""Ownership records that kubelets forge, what they would give them, and what a pool tells of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from harness.nodes import labels_of, record_of, taints_of
from harness.waiting import eventually
from harness.world import World
from testbed.cluster import Testbed
from winpool.api.keys import APPLIED_ANNOTATION, POOL_LABEL

Object = dict[str, Any]

NOBODY: Final = "00000000-0000-4000-8000-000000000000"
"""A UID that no pool ever had."""
DEDICATED: Final = "example.com/dedicated=gpu:NoExecute"
"""A taint that a cluster admin put on: pods were sent away by it."""
TENANT: Final = "example.node-restriction.kubernetes.io/tenant"
"""A label that a kubelet may not give itself; workloads are kept apart by it."""

_COMMAND: Final = re.compile(r"kubectl (taint|label|annotate) nodes? ")


# What stands there and what is forged


def restrict(world: World, nodes: Iterable[str]) -> None:
    """Have a cluster admin put on what the kubelets of these nodes may not touch."""
    world.kubectl("label", "node", *nodes, f"{TENANT}=bank")
    world.kubectl("taint", "node", *nodes, DEDICATED)


def is_restricted(world: World, node: str) -> bool:
    """Whether all that ``restrict`` put on is there."""
    found = world.node(node)
    return labels_of(found).get(TENANT) == "bank" and DEDICATED in taints_of(found)


def as_kubelet(testbed: Testbed, node: str, *arguments: str, stdin: str | None = None) -> str:
    """Run kubectl with the rights of the kubelet of ``node``; return what it printed.

    Raises:
        KubectlError: the API server, or a policy in it, does not let it.

    """
    kubeconfig = testbed.user_kubeconfig(f"system:node:{node}", groups=["system:nodes"])
    return testbed.kubectl(*arguments, role=kubeconfig.stem, stdin=stdin).stdout


def a_record(
    pool_uid: str,
    *,
    labels: Mapping[str, tuple[str, str | None]] | None = None,
    taints: Mapping[str, str | None] | None = None,
    **more: Any,
) -> str:
    """Return an ownership record.

    Args:
        pool_uid: whose it says to be.
        labels: what was set and what stood there before, by key.
        taints: the value that stood there before, by the taint as kubectl writes it.
        more: further fields, such as ``guard``.

    """
    named = {key: {"set": value, "before": before} for key, (value, before) in (labels or {}).items()}
    listed = [{**a_taint(text), "before": before} for text, before in (taints or {}).items()]
    return json.dumps({"v": 1, "pool": pool_uid, "labels": named, "taints": listed, **more})


def a_taint(text: str) -> Object:
    """Return the taint that kubectl writes as key=value:Effect."""
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    return {"key": key, "value": value, "effect": effect}


def forge(world: World, node: str, record: str, *, pool: str | None = None) -> None:
    """Have the kubelet of a node write a record there, and the label of a pool beside it."""
    labels = {POOL_LABEL: pool} if pool else {}
    patch = {"metadata": {"annotations": {APPLIED_ANNOTATION: record}, "labels": labels}}
    as_kubelet(world.testbed, node, "patch", "node", node, "--type=merge", "-p", json.dumps(patch))


def rewrite(world: World, node: str, record: str) -> None:
    """Have a cluster admin write a record, as if it had stood there before the guard came."""
    patch = json.dumps({"metadata": {"annotations": {APPLIED_ANNOTATION: record}}})
    world.kubectl("patch", "node", node, "--type=merge", "-p", patch)


def uid_of(world: World, pool: str) -> str:
    """Return the UID of a pool."""
    return str(world.get("wnp", pool)["metadata"]["uid"])


def guard_of(node: Object) -> str:
    """Return which guard the record on a node names; empty where it names none."""
    return str(record_of(node).get("guard") or "")


def claims_of_ours(world: World, pool: str, **more: object) -> str:
    """Return a record that gives to the pool what it has set, and what ``restrict`` puts on."""
    return claims_on(uid_of(world, pool), **more)


def claims_on(pool_uid: str, **more: object) -> str:
    """Return the record of ``claims_of_ours`` for a pool by its UID."""
    labels: dict[str, tuple[str, str | None]] = {
        "example.com/tier": ("gold", None),
        TENANT: ("bank", "shop"),
    }
    return a_record(pool_uid, labels=labels, taints={DEDICATED: None}, **more)


def await_guarded(world: World, *, other_than: str = "") -> str:
    """Return which guard all records name, once all name the same and not that one."""

    def check() -> str:
        names = {guard_of(node) for node in world.nodes().values()}
        return names.pop() if len(names) == 1 and not names & {"", other_than} else ""

    return eventually(check, what="every record names the guard")


# What a pool tells of it


def told(world: World, pool: str, *, node: str, key: str) -> list[str]:
    """Return the arguments of a kubectl command in an issue about ``node`` that takes ``key`` off, or []."""
    for issue in world.status(pool).get("issues", []):
        if node not in issue["nodes"]:
            continue
        for command in commands_in(f"{issue['message']} {issue['fix']}"):
            if node in command and any(word.startswith(key) for word in command[2:] if word.endswith("-")):
                return command
    return []


def await_told(world: World, pool: str, *, node: str, key: str) -> list[str]:
    """Return the arguments of that command once an issue of the pool has it."""
    return eventually(
        lambda: told(world, pool, node=node, key=key), what=f"an issue with a command for {key} on {node}"
    )


def commands_in(text: str) -> list[list[str]]:
    """Return the kubectl commands in a text for people that take something off nodes."""
    commands = []
    for match in _COMMAND.finditer(text):
        words = [match[1], "node"]
        for word in text[match.end() :].split():
            bare = word.strip("`'\"().,;")
            removes = len(bare) > 1 and bare.endswith("-")
            if words[-1].endswith("-") and not removes:  # names come first; then what is taken off
                break
            words.append(bare)
            if bare != word:
                break
        commands.append(words)
    return commands
