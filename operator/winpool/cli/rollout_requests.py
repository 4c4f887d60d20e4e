"""Stops upgrades of a pool, continues them, and tries failed ones again: the verbs of the plugin that write.

They are ``kubectl winpool rollout pause``, ``resume``, ``abort`` and ``retry``. The first three change one
entry of ``spec.upgrade.pauseRequests``, that of their owner, by a JSON patch that is refused if the entry is
not where it was read. So several owners can each have one. ``kubectl apply --server-side`` would keep them
apart, too, but it makes the first owner of a pool that was applied without that flag the owner of its whole
spec, and then the entry cannot be removed.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import msgspec

from winpool.api.keys import CRD_NAME, UPGRADE_RETRY_ANNOTATION, UPGRADE_STATE_LABEL
from winpool.api.upgrade import NodesInWork
from winpool.cli.console import Look, Paper, write
from winpool.cli.counts import listed
from winpool.cli.kubectl import Kubectl, KubectlError, NotAskedError, decoded
from winpool.cli.lenient import Fields
from winpool.cli.parsing import EndError, Exit, Verb, node_name, pool_name
from winpool.cli.reader import list_nodes, pool_content
from winpool.features.upgrade.claims import ENDED_BADLY, Claim, claim_of

MANAGER: Final = "kubectl-winpool"
"""The field manager of what is written, and the owner where kubectl does not know the user."""

ATTEMPTS: Final = 3
"""Someone else may change the list between two calls of kubectl; three times in a row they rarely do."""

_REFUSED_PATCH: Final = "The request is invalid"
"""How kubectl begins where a patch does not fit what is there any more."""

_OWNER_LENGTH: Final = 63
_NOT_OF_AN_OWNER: Final = re.compile(r"[^A-Za-z0-9_.]+")

_UNKNOWN: Final = (
    "there is no such pool, it has no spec.upgrade, a right is missing, or the API server cannot be asked"
)


def owner_of(kubectl: Kubectl, given: str | None) -> str:
    """Return whose request it is: ``given``, or the user that kubectl knows, in the letters of an owner."""
    if given is not None:
        return given
    try:
        answer = kubectl.run("auth", "whoami", "-o", "json")
        user = Fields.of(decoded(msgspec.json.decode, answer)).one("status", "userInfo").text("username")
    except NotAskedError:  # before Kubernetes 1.28 no server says it, and some do not permit the question
        user = ""
    return _NOT_OF_AN_OWNER.sub("-", user)[:_OWNER_LENGTH].strip("-_.") or MANAGER


def change_of(
    pool: Mapping[str, Any], owner: str, entry: Mapping[str, str] | None
) -> list[Mapping[str, Any]]:
    """Return the JSON patch after which ``entry`` is the request of ``owner``, or none is; empty if it is so.

    Raises EndError where the pool has no ``spec.upgrade``.
    """
    fields = Fields(pool)
    if not isinstance(fields.one("spec").content.get("upgrade"), dict):
        name = fields.one("metadata").text("name")
        raise EndError(f"the pool {name} has no spec.upgrade: no upgrade of it begins that could be paused")
    block, path = fields.one("spec", "upgrade"), "/spec/upgrade/pauseRequests"
    requests = block.all("pauseRequests")
    place = next((place for place, each in enumerate(requests) if each.text("owner") == owner), None)
    if place is not None:
        if entry == requests[place].content:
            return []
        is_there = {"op": "test", "path": f"{path}/{place}/owner", "value": owner}
        changed = {"op": "replace", "path": f"{path}/{place}", "value": entry}
        return [is_there, changed if entry is not None else {"op": "remove", "path": f"{path}/{place}"}]
    if entry is None:
        return []
    if "pauseRequests" in block.content:
        return [{"op": "add", "path": f"{path}/-", "value": entry}]
    return [{"op": "test", "path": path, "value": None}, {"op": "add", "path": path, "value": [entry]}]


def request(kubectl: Kubectl, name: str, owner: str, entry: Mapping[str, str] | None) -> Mapping[str, Any]:
    """Have ``entry`` be the request of ``owner`` for the pool, or none; return the pool. Raises EndError."""
    for attempt in range(1, ATTEMPTS + 1):
        pool = pool_content(kubectl, name)
        change = change_of(pool, owner, entry)
        if not change:
            return pool
        patch = ("patch", CRD_NAME, name, "--type=json", f"--field-manager={MANAGER}", "-o", "json")
        try:
            answer = kubectl.run(*patch, "-p", json.dumps(change))
        except KubectlError as error:
            if attempt == ATTEMPTS or not error.said.startswith(_REFUSED_PATCH):
                raise
        else:
            return dict(decoded(msgspec.json.Decoder(dict[str, Any]).decode, answer))
    raise AssertionError("the last attempt returns or raises")


def _paused(given: argparse.Namespace, nodes_in_work: NodesInWork) -> int:
    with Kubectl(given.flags) as kubectl:
        owner = owner_of(kubectl, given.owner)
        entry = {"owner": owner} | ({"reason": given.reason} if given.reason else {})
        if nodes_in_work is not NodesInWork.FINISH:
            entry["nodesInWork"] = str(nodes_in_work)
        request(kubectl, given.pool, owner, entry)
    _say(
        f"No further upgrade of the pool {given.pool} begins ({owner}). {_IN_WORK[nodes_in_work]}",
        f"To end that: kubectl winpool rollout resume {given.pool} --owner {owner}",
    )
    return Exit.YES


_IN_WORK: Final = {
    NodesInWork.FINISH: "Nodes in work finish.",
    NodesInWork.RESTORE: (
        "Nodes in work that are not handed over are given up and made schedulable again. Those that are "
        "handed over finish."
    ),
}


def _resumed(given: argparse.Namespace) -> int:
    with Kubectl(given.flags) as kubectl:
        owner = owner_of(kubectl, given.owner)
        pool = Fields(request(kubectl, given.pool, owner, None))
    said = f"The pool {given.pool} has no pause request of {owner}."
    left = [_named(each) for each in pool.one("spec", "upgrade").all("pauseRequests")]
    stays = f"It stays paused by {listed(left, most=len(left))}."
    begins = f"Upgrades begin when their gates are open: kubectl winpool rollout status {given.pool}"
    _say(said, stays if left else begins)
    return Exit.YES


def _named(entry: Fields) -> str:
    reason = entry.text("reason")
    return f"{entry.text('owner')} ({reason})" if reason else entry.text("owner")


def _retried(given: argparse.Namespace) -> int:
    with Kubectl(given.flags) as kubectl:
        nodes = list_nodes(kubectl, name=given.node).nodes
        if not nodes:
            raise EndError(f'there is no node "{given.node}": list the nodes with kubectl get nodes')
        found = claim_of(nodes[0])
        if not isinstance(found, Claim) or found.state not in ENDED_BADLY:
            label = nodes[0].labels.get(UPGRADE_STATE_LABEL, "absent")
            raise EndError(
                f"the upgrade of {given.node} has not failed (label {UPGRADE_STATE_LABEL}: {label}), so "
                f"there is nothing to try again: kubectl winpool why {given.node}"
            )
        value = f"{UPGRADE_RETRY_ANNOTATION}={owner_of(kubectl, None)}"
        kubectl.run("annotate", "node", given.node, value, "--overwrite", f"--field-manager={MANAGER}")
    _say(
        f"The operator tries the upgrade of {given.node} again when its gates are open and its turn has "
        f"come. Its last one failed: {found.reason}.",
        f"See what it waits for: kubectl winpool why {given.node}",
    )
    return Exit.YES


def _say(*sentences: str) -> None:
    def text(look: Look) -> str:
        paper = Paper(look)
        for each in sentences:
            paper.wrapped(each, first="")
        return paper.text

    write("text", dict, text)


def _add_pool(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pool", type=pool_name, metavar="POOL", help="The pool: NAME or wnp/NAME.")
    parser.add_argument("--owner", help=f"Whose request it is. Default: the user, or {MANAGER}.")


def _add_pool_and_reason(parser: argparse.ArgumentParser) -> None:
    _add_pool(parser)
    parser.add_argument("--reason", default="", help="Why. Others see it. At most 256 characters.")


def _add_node(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("node", type=node_name, metavar="NODE", help="The node: NAME or node/NAME.")


_RIGHTS: Final = "It needs the rights to get and patch windowsnodepools."


def _exits(done: str) -> Mapping[Exit, str]:
    return {Exit.YES: done, Exit.UNKNOWN: _UNKNOWN}


VERBS: Final[Mapping[str, Verb]] = {
    "rollout abort": Verb(
        "Add a request of yours to spec.upgrade.pauseRequests of the pool, with\n"
        "nodesInWork: Restore. No further upgrade begins. Nodes that the operator drains\n"
        "are uncordoned. Those that are handed over (Upgrading and later) finish, since\n"
        f"someone may be at work on the machine.\n{_RIGHTS}",
        _exits("the pool has the request"),
        (("kubectl winpool rollout abort win-2022 --reason 'incident 4711'", "stop, and uncordon"),),
        _add_pool_and_reason,
        partial(_paused, nodes_in_work=NodesInWork.RESTORE),
    ),
    "rollout pause": Verb(
        "Add a request of yours to spec.upgrade.pauseRequests of the pool. No further\n"
        "upgrade begins until it, and those of all other owners, are removed.\n"
        f"{_RIGHTS}",
        _exits("the pool has the request"),
        (
            ("kubectl winpool rollout pause win-2022 --reason 'incident 4711'", "as the user that you are"),
            ("kubectl winpool rollout pause wnp/win-2022 --owner sre", "for a team"),
        ),
        _add_pool_and_reason,
        partial(_paused, nodes_in_work=NodesInWork.FINISH),
    ),
    "rollout resume": Verb(
        "Remove your request from spec.upgrade.pauseRequests of the pool. Those of other\n"
        f"owners stay, and are named.\n{_RIGHTS}",
        _exits("the pool has no such request, now or before"),
        (("kubectl winpool rollout resume win-2022", "what you have paused"),),
        _add_pool,
        _resumed,
    ),
    "rollout retry": Verb(
        f"Annotate a node whose upgrade has failed with {UPGRADE_RETRY_ANNOTATION}.\n"
        "The operator tries it again when its gates are open and its turn has come.\n"
        "It needs the rights to list and patch nodes; the guard may ask for a right of\n"
        'its own (see "The guard" in the docs).',
        {
            Exit.YES: "the node has the annotation",
            Exit.UNKNOWN: "there is no such node, its upgrade has not failed, a right is missing, or the API "
            "server cannot be asked",
        },
        (("kubectl winpool rollout retry akswin000003", "once the machine is repaired"),),
        _add_node,
        _retried,
    ),
}
