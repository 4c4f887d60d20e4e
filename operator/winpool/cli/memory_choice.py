"""Which nodes of a report a person has named: those of a pool, or one node."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from winpool.api.keys import SHORT_NAME
from winpool.cli.parsing import pool_name

if TYPE_CHECKING:
    from winpool.model.memory_report import MemoryReport

_NODE_RESOURCES: Final = frozenset({"node", "nodes", "no"})
"""What kubectl takes before the slash of a node."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A name, and of what it is; ``kind`` is empty where the person has not said."""

    name: str
    kind: Literal["pool", "node", ""] = ""


class NothingChosenError(Exception):
    """The report has no node of that name and of no pool of that name; the text says so."""


class TwoMeaningsError(Exception):
    """The name is that of a pool and of a node; the text says how to name either."""


def choice(text: str) -> Choice:
    """Read NAME, wnp/NAME or node/NAME, as an argument of the command line."""
    resource, slash, name = text.rpartition("/")
    if not slash and name:
        return Choice(name)
    if name and resource.lower() in _NODE_RESOURCES:
        return Choice(name, "node")
    try:
        return Choice(pool_name(text), "pool")
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not the name of a pool or a node: write NAME, {SHORT_NAME}/NAME or node/NAME"
        ) from None


def chosen(report: MemoryReport, wanted: Choice | None) -> MemoryReport:
    """Return ``report`` with the nodes that were named only, all where none was.

    Raises NothingChosenError and TwoMeaningsError.
    """
    if wanted is None:
        return report
    of_pool = () if wanted.kind == "node" else tuple(n for n in report.nodes if n.pool == wanted.name)
    named = () if wanted.kind == "pool" else tuple(n for n in report.nodes if n.node == wanted.name)
    if of_pool and named:
        raise TwoMeaningsError(
            f'"{wanted.name}" is the name of a pool and of a node: write {SHORT_NAME}/{wanted.name} or '
            f"node/{wanted.name}"
        )
    if not of_pool and not named:
        what = {"pool": "node of a pool", "node": "node", "": "node, and no node of a pool,"}[wanted.kind]
        raise NothingChosenError(
            f'the operator watches the memory of no {what} "{wanted.name}": it watches the nodes of pools '
            f"with spec.memoryPressure; list them with kubectl winpool memory"
        )
    return msgspec.structs.replace(report, nodes=of_pool or named, left_out=0 if named else report.left_out)
