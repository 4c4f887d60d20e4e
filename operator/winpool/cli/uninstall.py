"""Shows what winpool has in the cluster, and how to remove it: ``kubectl winpool uninstall --plan``.

What is there is read by ten lists, and no write.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from winpool.api.admission import GUARD_NAME
from winpool.api.fence import policies
from winpool.api.keys import CRD_NAME, NAMESPACE, RELEASE_FINALIZER
from winpool.api.text import grouped
from winpool.cli import uninstall_plan
from winpool.cli.console import Ink, Look, Paper, write
from winpool.cli.counts import counted, listed
from winpool.cli.kubectl import Kubectl, KubectlError, NotAskedError
from winpool.cli.lenient import Fields
from winpool.cli.parsing import Exit, UsageError, add_output, shown
from winpool.cli.reader import list_nodes, read_pools
from winpool.cli.uninstall_plan import DeploymentFact, Facts, FenceFact, GuardFact, LeaseFact
from winpool.kube.control_plane import BINDING, POLICY, identity_of, problem_of
from winpool.kube.lists import ListPage
from winpool.kube.wire import ListOf

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from winpool.kube.watch import NamedObject
    from winpool.model.pool import Pool


DESCRIPTION: Final = """\
Show what winpool has in the cluster, and the steps that remove it, in order.

It changes nothing: you run the commands that it prints, and run it again to
check. It lists pools, all nodes, and the objects of an installation, and needs
the rights to list windowsnodepools and nodes. If another right is missing, a
warning says which."""

EXITS: Final = {
    Exit.YES: "no pool is left and no node has anything of winpool: the operator can be removed",
    Exit.UNKNOWN: "nodes cannot be read, and nothing else is left; or pools or nodes cannot be listed",
    Exit.USAGE: "the command line is wrong, or --plan is missing",
    Exit.NO: "there are pools, or nodes with something of winpool",
}

EXAMPLES: Final = (
    ("kubectl winpool uninstall --plan", "what is there, what to know, and the steps"),
    ("kubectl winpool uninstall --plan -o json", "for programs"),
)

_READY: Final = "No pool is left, and no node has anything of winpool."
_NOTHING: Final = "Nothing of winpool is in this cluster."

_GROUPS: Final[Mapping[str, str]] = {
    "Owned": "of the pool {}",
    "RecordUnreadable": "of the pool {}, with a record that is missing or cannot be read",
    "PoolGone": "of the pool {}, which does not exist any more",
    "NoOwner": "of no pool: no operator removes what is there",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes on its command line."""
    parser.add_argument(
        "--plan", action="store_true", help="Print the plan. Required, since this verb only plans."
    )
    add_output(parser)


def run(given: argparse.Namespace) -> int:
    """Print the plan; return the exit code."""
    if not given.plan:
        raise UsageError("it only plans an uninstallation and removes nothing: add --plan")
    with Kubectl(given.flags) as kubectl:
        content = as_content(read_facts(kubectl, given.flags))
    write(given.output, lambda: content, lambda look: as_text(content, look=look))
    if content["pools"] or content["nodeGroups"]:
        return Exit.NO
    return Exit.YES if content["ready"] else Exit.UNKNOWN


def as_content(facts: Facts) -> dict[str, Any]:
    """Return the plan for programs. What could not be read is null."""
    plan, guard = uninstall_plan.plan_of(facts), facts.guard
    groups = grouped(((each.place, each.pool), each.node.name) for each in plan.nodes)
    content = {
        "ready": plan.is_ready,
        "pools": [
            {
                "name": pool.name,
                "mode": uninstall_plan.mode_of(pool),
                "deleting": pool.deleting,
                "finalizer": RELEASE_FINALIZER in pool.finalizers,
                "otherFinalizers": uninstall_plan.other_finalizers(pool),
                "nodes": [
                    name
                    for place in (uninstall_plan.Place.OWNED, uninstall_plan.Place.RECORD_UNREADABLE)
                    for name in groups.get((place, pool.name), ())
                ],
            }
            for pool in facts.pools
        ],
        "nodeGroups": [
            {"place": place, "pool": pool, "count": len(names), "nodes": names}
            for (place, pool), names in groups.items()
        ],
        "unreadNodes": facts.unread_nodes,
        "deployments": facts.deployments,
        "leases": facts.leases,
        "guard": guard and {"found": guard.found, "problem": guard.problem},
        "fence": facts.fence,
        "roles": facts.roles,
        "crd": facts.crd,
        "warnings": plan.cautions,
        "steps": plan.steps,
    }
    return dict(msgspec.to_builtins(content))


def as_text(content: Mapping[str, Any], *, look: Look) -> str:
    """Return what ``as_content`` returns for a terminal of that look."""
    paper, pools, groups = Paper(look), content["pools"], content["nodeGroups"]
    if content["ready"]:
        paper.marked(_READY if content["steps"] else f"{_READY} {_NOTHING}", ink=Ink.GOOD)
    paper.line(f"Pools: {len(pools)}", ink=Ink.HEAD)
    for each in pools:
        state = "deleting" if each["deleting"] else f"mode {each['mode']}"
        finalizer = "" if each["finalizer"] else ", without its finalizer"
        paper.wrapped(
            f"{each['name']}: {counted(len(each['nodes']), 'node')}, {state}{finalizer}", first="  "
        )
    count = sum(group["count"] for group in groups)
    paper.line(f"Nodes with something of winpool: {count}", ink=Ink.HEAD)
    for group in groups:
        said = _GROUPS[group["place"]].format(group["pool"])
        paper.wrapped(f"{counted(group['count'], 'node')} ({listed(group['nodes'])}): {said}", first="  ")
    paper.line("Installed:", ink=Ink.HEAD)
    for title, said in _installed(content):
        paper.wrapped(said, first=f"  {title:<12}")
    if content["warnings"]:
        paper.heading(f"Warnings: {len(content['warnings'])}")
    for each in content["warnings"]:
        paper.marked(each["message"], ink=Ink.BUSY)
    if content["steps"]:
        paper.heading(f"Steps: {len(content['steps'])}")
    for number, step in enumerate(content["steps"], start=1):
        paper.wrapped(f"{step['title']}.", first=f"  {number}. ")
        for command in step["commands"]:
            paper.line(f"       {command}")
        paper.wrapped(step["waitFor"], first="     Wait for: ")
    return paper.text


def _installed(content: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each part of the installation, and what is known of it."""
    deployments, leases = content["deployments"], content["leases"]
    yield "Deployment", _listed(deployments, "{name}, {readyReplicas} of {replicas} replicas ready")
    holders = leases and [{**each, "live": "in time" if each["live"] else "too long ago"} for each in leases]
    yield "Lease", _listed(holders, "{name}, last renewed {live} by {holder}")
    for title, faults in (("Guard", "problem"), ("Fence", "missing")):
        part = content[title.lower()]
        wrong = part and part["found"] and part[faults]
        said = wrong and (f"not in force: {wrong}" if title == "Guard" else f"without {', '.join(wrong)}")
        is_whole = part and part["found"] and not wrong
        yield title, said or ("in force" if is_whole else _presence(part and part["found"]))
    roles = content["roles"]
    yield "Rights", "unknown" if roles is None else listed(roles) or "none"
    yield "CRD", _presence(content["crd"])


def _listed(found: Sequence[Mapping[str, Any]] | None, form: str) -> str:
    return "unknown" if found is None else "; ".join(form.format_map(each) for each in found) or "none"


def _presence(found: bool | None) -> str:
    return "unknown" if found is None else "there" if found else "none"


T = TypeVar("T")

_DEPLOYMENTS: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
_LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
_RIGHTS: Final = (f"{_RBAC}/clusterroles", f"{_RBAC}/clusterrolebindings")
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

_list: Final = msgspec.json.Decoder(ListOf[dict[str, Any]])


def read_facts(kubectl: Kubectl, flags: Sequence[str]) -> Facts:
    """Return what the cluster has. Commands that are shown get those of ``flags`` that choose it.

    Raises NotAskedError where kubectl cannot ask, and where the right to list pools or nodes is missing.
    Where another right is missing, what it is for is None, and ``unread`` says which right.
    """
    unread: dict[str, str] = {}

    def known(part: str, read: Callable[[], T]) -> T | None:
        """Return what ``read`` does, or note which right is missing. Raises NotAskedError otherwise."""
        try:
            return read()
        except KubectlError as error:
            if error.reason != "Forbidden":
                raise
            unread[part] = str(error)
            return None

    def listed(path: str, decode: Callable[[bytes], ListPage[T]], **query: str) -> Callable[[], list[T]]:
        return kubectl.begin(lambda: kubectl.objects(path, decode, **query)).result

    pools = known("the pools", lambda: _pools(kubectl))
    nodes_of = kubectl.begin(lambda: list_nodes(kubectl)).result
    namespaces = listed("/api/v1/namespaces", _objects, fieldSelector=f"metadata.name={NAMESPACE}")
    deployments = listed(_DEPLOYMENTS, _objects, labelSelector=uninstall_plan.NAME_LABEL)
    rights = [listed(each, _objects, labelSelector=uninstall_plan.NAME_LABEL) for each in _RIGHTS]
    leases = listed(_LEASES, _objects)
    policies_of, bindings_of = (
        listed(each.collection, each.decode) for each in (POLICY.source.listing, BINDING.source.listing)
    )
    crds = listed(_CRDS, _objects, fieldSelector=f"metadata.name={CRD_NAME}")
    nodes, now = known("the nodes", nodes_of), datetime.now(UTC)
    if pools is None or nodes is None:
        raise NotAskedError("; ".join(unread.values()))
    return Facts(
        pools=pools,
        nodes=nodes.nodes,
        unread_nodes=nodes.unread,
        namespace=known("the namespace", lambda: bool(namespaces())),
        deployments=known("the Deployment", lambda: tuple(map(deployment_fact, deployments()))),
        leases=known("the Lease", lambda: tuple(lease_fact(each, now=now) for each in leases())),
        guard=known("the guard", lambda: guard_fact(policies_of(), bindings_of())),
        fence=known("the fence", lambda: fence_fact(policies_of(), bindings_of())),
        roles=known("the rights", lambda: tuple(sorted({_name(each) for read in rights for each in read()}))),
        crd=known("the CRD", lambda: bool(crds())),
        unread=unread,
        flags=shown(flags),
    )


def _pools(kubectl: Kubectl) -> tuple[Pool, ...]:
    try:
        return read_pools(kubectl)
    except KubectlError as error:
        if not error.is_missing_kind:
            raise
        return ()  # without the CRD there is no pool


def _objects(body: bytes) -> ListPage[Fields]:
    page = _list.decode(body)
    found = tuple(map(Fields, page.items or ()))
    return ListPage(found, page.metadata.resource_version, page.metadata.continue_)


def _name(found: Fields) -> str:
    return found.one("metadata").text("name")


def deployment_fact(found: Fields) -> DeploymentFact:
    """Read a Deployment."""
    return DeploymentFact(
        name=_name(found),
        replicas=found.one("spec").count("replicas"),
        ready_replicas=found.one("status").count("readyReplicas"),
        release=found.one("metadata").one("annotations").text("meta.helm.sh/release-name"),
    )


def lease_fact(found: Fields, *, now: datetime) -> LeaseFact:
    """Read a Lease. It is live where its holder has renewed it in time, as far as the clocks agree."""
    spec = found.one("spec")
    holder, renewed = spec.text("holderIdentity"), spec.moment("renewTime")
    live = renewed is not None and (now - renewed).total_seconds() <= spec.count("leaseDurationSeconds")
    return LeaseFact(name=_name(found), holder=holder, live=bool(holder) and live)


def guard_fact(policies_found: Iterable[NamedObject], bindings_found: Iterable[NamedObject]) -> GuardFact:
    """Return what there is of the guard."""
    policy, binding = (
        next((each for each in found if each.name == GUARD_NAME), None)
        for found in (policies_found, bindings_found)
    )
    problem = problem_of(policy, binding)
    identity = identity_of(policy, binding) if policy and binding and not problem else ""
    return GuardFact(found=bool(policy or binding), problem=problem, identity=identity)


def fence_fact(policies_found: Iterable[NamedObject], bindings_found: Iterable[NamedObject]) -> FenceFact:
    """Return what there is of the fence, of which each policy has a binding of its name."""
    there = [
        (kind.kind, {each.name for each in found})
        for kind, found in ((POLICY, policies_found), (BINDING, bindings_found))
    ]
    parts = [(f"{kind} {name}", name in names) for name, _, _ in policies() for kind, names in there]
    missing = tuple(part for part, is_there in parts if not is_there)
    return FenceFact(found=len(missing) < len(parts), missing=missing)
