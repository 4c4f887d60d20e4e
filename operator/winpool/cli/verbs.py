"""Names the verbs, and loads the module of one: the others are not needed for it."""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from winpool.cli.parsing import Verb

HELP: Final = "help"
"""The verb that stands for ``--help``, and has no module."""

VERBS: Final[Mapping[str, str]] = {
    "audit": "Find what of workloads does not run on Windows as written.",
    "diagnose": "Find why Windows nodes do not work.",
    "help": "Show the help of a verb.",
    "join-config": "Print the kubelet settings that a node needs to join a pool.",
    "matrix": "Print which Windows releases run with which Kubernetes versions.",
    "memory": "Show how much memory is left on nodes, the worst first.",
    "memory replay": "Say when the operator would have signalled or evicted, by recorded samples.",
    "plan": "Show how the nodes of a pool would be upgraded, and what keeps them.",
    "rollout abort": "Give up the nodes in work of a pool, and begin with no further one.",
    "rollout pause": "Begin with no further upgrade of a pool; nodes in work finish.",
    "rollout resume": "Remove the request by which a pool is paused or aborted.",
    "rollout retry": "Try the upgrade of a node again that has failed.",
    "rollout status": "Show how far the upgrades of a pool are, node by node.",
    "runtimeclass": "Print the RuntimeClass that fits a pool.",
    "status": "Show the state of pools, their issues and the fixes.",
    "uninstall": "Show what is to be removed to uninstall winpool, in order.",
    "validate": "Check pool manifests without a cluster.",
    "version": "Print the versions of the plugin, the operator and the CRD.",
    "why": "Show why a node does not work or is not upgraded, and what to do.",
}
"""What each does, in the order in which ``--help`` lists them."""

_REQUESTS: Final = ("rollout abort", "rollout pause", "rollout resume", "rollout retry")
"""Verbs that are in ``rollout_requests``. Each other one is a module."""


def loaded(name: str) -> Verb:
    """Return the verb of that name."""
    if name in _REQUESTS:
        found: Verb = import_module("winpool.cli.rollout_requests").VERBS[name]
        return found
    module: Any = import_module(f"winpool.cli.{re.sub('[- ]', '_', name)}")
    verb: Verb = module
    return verb


def of_group(word: str) -> Mapping[str, str]:
    """Return the verbs of two words that begin with ``word``, if that is no verb itself."""
    return {} if word in VERBS else {name: VERBS[name] for name in VERBS if name.startswith(f"{word} ")}


def joined(words: list[str]) -> list[str]:
    """Return the words of a command line with a verb of two words as one."""
    first = " ".join(words[:2])
    return [first, *words[2:]] if first in VERBS else words
