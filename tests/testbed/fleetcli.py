"""Simulated nodes in a person's hands: the commands ``fleet``, ``scenario`` and ``actuator``."""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from rich.console import Console
from rich.table import Table

from testbed.actuator import METHODS, Actuator
from testbed.cluster import Testbed
from testbed.errors import TestbedError
from testbed.progress import say
from testbed.winsim.control import FleetControl
from testbed.winsim.durations import parse_duration
from testbed.winsim.entries import Outage
from testbed.winsim.mistakes import sentences
from testbed.winsim.player import in_words, play
from testbed.winsim.scenario import Scenario
from testbed.winsim.spelling import parse_label
from testbed.winsim.verbs import VERBS

AddCommand = Callable[[str, Callable[[argparse.Namespace], int], str], argparse.ArgumentParser]
"""Makes a command of ``python -m testbed``: its name, what it does, its help."""

_SINGULAR: Final = {
    "labels": "label",
    "taints": "taint",
    "names": "name",
    "pods": "pod",
    "unready_pods": "unready-pod",
}
"""Fields that hold many are options that may be repeated, and are called after one."""
_LOOK_SECONDS: Final = 1.0
"""Between two looks of an actuator."""


def add_commands(add: AddCommand) -> None:
    """Put the three commands into the command line of the testbed."""
    fleet = add("fleet", _fleet, "show the simulated nodes, or change them")
    verbs = fleet.add_subparsers(required=True, metavar="VERB", dest="verb")
    status = verbs.add_parser("status", help="show the nodes", description="Show the nodes.")
    status.add_argument("--json", action="store_true", help="print JSON, for programs")
    for name, model in VERBS.items():
        text = (model.__doc__ or "").partition("\n")[0]
        _add_fields(verbs.add_parser(name.replace("_", "-"), help=text, description=text), model)
    scenario = add("scenario", _scenario, "run a file of timed steps on the simulated nodes")
    scenario.add_argument("file", type=Path, help="YAML file; tests/testbed/winsim/README.md has its format")
    scenario.add_argument("--check", action="store_true", help="only check the file; needs no testbed")
    actuator = add(
        "actuator", _actuator, "upgrade the machines of nodes that winpool hands over, until Ctrl-C"
    )
    actuator.add_argument("--method", choices=METHODS, default="patch", help="how (default %(default)s)")
    for field in fields(Outage):
        actuator.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=_seconds,
            default=field.default,
            metavar="TIME",
            help="as of fleet reboot (default %(default)ss)",
        )


def _add_fields(command: argparse.ArgumentParser, model: type[BaseModel]) -> None:
    """Offer every field of a verb's arguments. What they may hold is judged by the model alone."""
    for name, field in model.model_fields.items():
        text = (field.description or "").replace("%", "%%")
        if name == "nodes":
            command.add_argument("nodes", nargs="+", metavar="NODES", help=text)
        elif name in _SINGULAR:
            flag = f"--{_SINGULAR[name]}"
            command.add_argument(flag, dest=name, action="append", metavar="TEXT", help=f"{text}; repeatable")
        else:
            flag = f"--{name.replace('_', '-')}"
            command.add_argument(flag, dest=name, metavar="TEXT", required=field.is_required(), help=text)


def _arguments(parsed: argparse.Namespace, model: type[BaseModel]) -> dict[str, Any]:
    given = {name: getattr(parsed, name) for name in model.model_fields if getattr(parsed, name) is not None}
    if len(given.get("nodes", ())) == 1:
        given["nodes"] = given["nodes"][0]
    try:
        if "labels" in given:
            given["labels"] = dict(parse_label(text) for text in given["labels"])
    except ValueError as error:
        raise TestbedError(f"--label: {error}") from error
    try:
        model.model_validate(given)
    except ValidationError as error:
        raise TestbedError("; ".join(sentences(error, model=model, where=parsed.verb))) from error
    return given


def _fleet(parsed: argparse.Namespace) -> int:
    fleet = Testbed.attach(parsed.dir).fleet
    if parsed.verb == "status":
        return _status(fleet, as_json=parsed.json)
    verb = parsed.verb.replace("-", "_")
    names = fleet.act(verb, _arguments(parsed, VERBS[verb]))
    say(f"{parsed.verb}: {in_words(names)}")
    return 0


def _status(fleet: FleetControl, *, as_json: bool) -> int:
    nodes = fleet.status()
    console = Console(soft_wrap=True)
    if as_json:
        console.out(json.dumps([node.model_dump() for node in nodes]), highlight=False)
        return 0
    table = Table("NAME", "OS", "KUBELET", "READY", "ADDRESS", box=None, pad_edge=False)
    for node in nodes:
        ready = str(node.ready) if node.registered else "no Node"
        shown = f"{ready} ({node.reason})" if node.reason else ready
        table.add_row(node.name, node.os, "Running" if node.running else "Stopped", shown, node.address)
    console.print(table)
    summary = fleet.summary()
    say(f"{summary.nodes} nodes: {summary.running} kubelets run, {summary.ready} nodes Ready")
    return 0


def _scenario(parsed: argparse.Namespace) -> int:
    scenario = Scenario.read(parsed.file)
    if parsed.check:
        say(f"{parsed.file}: {len(scenario.steps)} steps, no mistakes")
        return 0
    play(scenario, fleet=Testbed.attach(parsed.dir).fleet, say=say)
    return 0


def _seconds(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _actuator(parsed: argparse.Namespace) -> int:
    testbed = Testbed.attach(parsed.dir)
    outage = Outage(**{field.name: getattr(parsed, field.name) for field in fields(Outage)})
    actuator = Actuator(api=testbed.api(), fleet=testbed.fleet, method=parsed.method, outage=outage)
    told: dict[str, str] = {}
    while True:
        found = actuator.look()
        for name, what in found.items():
            if told.get(name) != what:
                say(f"{name}: {what}")
        told = found
        time.sleep(_LOOK_SECONDS)
