"""``kubectl winpool plan``: in which order the nodes of a pool would be upgraded, and what keeps them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from winpool.api.keys import KIND
from winpool.api.text import printable
from winpool.cli.manifests import UnreadableError, named_twice, pools_in
from winpool.cli.operator_settings import SettingsError, add_settings, rows_of_settings
from winpool.cli.parsing import Exit, add_filename, add_output, add_verb, pool_name

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from typing import Any

    from winpool.cli.parsing import Subparsers
    from winpool.cli.upgrade_judge import Judged
    from winpool.cli.upgrade_world import Cluster
    from winpool.model.pool import Pool
    from winpool.support.rows import Row

NODES_SHOWN: Final = 20
"""Nodes of a plan that are shown without ``--all``: as many as fit a terminal."""

_DESCRIPTION: Final = f"""\
Show in which order the due nodes of a pool would be upgraded, in batches, and
why in that order: which gates are closed and what opens each, which pods would
not fit on other nodes, which pods would be lost, and how long it would take.

With -f it plans manifests that are not applied, on the nodes of the cluster:
a pool of the same name is replaced in that picture. It writes nothing.

It judges the gates itself, from what the API server has now, by the rules of
the operator. It needs the rights to list windowsnodepools, nodes, pods and
poddisruptionbudgets. The first {NODES_SHOWN} nodes are shown; --all shows all."""

_EXITS: Final = {
    Exit.DONE: "the plan is shown, whatever gates are closed",
    Exit.REFUSED: "there is no such pool, or a manifest is not valid or has no pool",
    Exit.USAGE: "the command line is wrong, or a file or the API server cannot be read",
}

_EXAMPLES: Final = (
    ("kubectl winpool plan win-2022", "what would happen, and what keeps it"),
    ("kubectl winpool plan -f pool.yaml --all", "before you apply a manifest; all nodes"),
    ("kubectl winpool plan wnp/win-2022 -o json", "for programs; always all nodes"),
    ("kubectl winpool plan -f - --support-matrix-file rows.yaml", "with rows of the operator's settings"),
)


def add_to(subparsers: Subparsers) -> None:
    """Add the verb to the command line."""
    parser = add_verb(
        subparsers,
        "plan",
        summary="Show how the nodes of a pool would be upgraded, and what keeps them.",
        description=_DESCRIPTION,
        exits=_EXITS,
        examples=_EXAMPLES,
    )
    parser.add_argument(
        "pool", type=pool_name, nargs="?", metavar="POOL", help="Plan this pool: NAME or wnp/NAME."
    )
    add_filename(parser, required=False)
    add_output(parser)
    parser.add_argument("--all", action="store_true", help="Show all nodes of the plan.")
    add_settings(parser)
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Show it; return the exit code."""
    # Imported here: what asks a server takes half a second to load, and --help does not need it.
    from winpool.cli.reasons import NoSuchPoolError, NotAskedError
    from winpool.cli.upgrade_reader import read_cluster

    if (given.pool is None) is (given.filename is None):
        return _usage("name one POOL, or manifests with -f, and not both")
    if given.recursive and given.filename is None:
        return _usage("-R needs -f")
    try:
        rows = rows_of_settings(given)
        manifests = _manifests(given)
        if isinstance(manifests, Exit):
            return manifests
        cluster = read_cluster(
            lambda seen: _planned(seen, given.pool, manifests)[1],
            kubeconfig=given.kubeconfig,
            context=given.context,
        )
    except NoSuchPoolError as error:
        _note(str(error))
        return Exit.REFUSED
    except (NotAskedError, SettingsError, UnreadableError) as error:
        return _usage(str(error))
    sys.stdout.write(shown(cluster, given, manifests=manifests, rows=rows))
    return Exit.DONE


def shown(
    cluster: Cluster,
    given: argparse.Namespace,
    *,
    manifests: Sequence[Mapping[str, Any]] = (),
    rows: tuple[Row, ...] = (),
) -> str:
    """Return the plan of the pool, or of each of ``manifests``, as it was asked for."""
    from winpool.cli.console import look_of
    from winpool.cli.plan_json import as_json
    from winpool.cli.plan_text import as_text
    from winpool.cli.upgrade_judge import judged

    picture, pools = _planned(cluster, given.pool, manifests)
    found: list[Judged] = [judged(picture, pool, rows=rows) for pool in pools]
    if given.output == "json":
        return as_json(found, picture)
    most = None if given.all else NODES_SHOWN
    look = look_of(sys.stdout)
    return "\n".join(as_text(each, picture, most=most, look=look) for each in found)


def _planned(
    cluster: Cluster, name: str | None, manifests: Sequence[Mapping[str, Any]]
) -> tuple[Cluster, tuple[Pool, ...]]:
    """Return the cluster as it is planned, and the pools that are.

    Raises NoSuchPoolError where the cluster does not have the pool of that name.
    """
    from winpool.cli.pool_object import planned_pool
    from winpool.cli.reasons import NoSuchPoolError

    if name is not None:
        pool = cluster.pool(name)
        if pool is None:
            raise NoSuchPoolError(name)
        return cluster, (pool,)
    pools = tuple(planned_pool(each, cluster.pools) for each in manifests)
    for each in pools:
        cluster = cluster.planned(each)
    return cluster, pools


def _manifests(given: argparse.Namespace) -> Sequence[Mapping[str, Any]] | Exit:
    """Return the pools of ``-f``, none without it; an exit code where one is not valid, or there is none.

    Raises UnreadableError.
    """
    if given.filename is None:
        return ()
    found = pools_in(given.filename, recursive=given.recursive)
    found.faults += named_twice(found.pools)
    for line in (*found.skipped, *found.faults):
        _note(line)
    if found.faults:
        _note("no plan for a manifest that is not valid: see kubectl winpool validate --help")
        return Exit.REFUSED
    if not found.pools:
        _note(f"no {KIND} found")
        return Exit.REFUSED
    return [each.content for each in found.pools]


def _note(text: str) -> None:
    sys.stderr.write(f"{printable(text)}\n")


def _usage(text: str) -> Exit:
    _note(f"kubectl winpool plan: {text}")
    return Exit.USAGE
