"""Prints the RuntimeClass that fits a pool: ``kubectl winpool runtimeclass``.

It has what https://kubernetes.io/docs/concepts/windows/user-guide/ recommends: a class for each Windows
build, which selects it and tolerates the taints of its nodes, so that pods need nothing but its name.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from winpool.api.keys import OS_LABEL, OS_WINDOWS, WINDOWS_BUILD_LABEL
from winpool.api.selector import selects
from winpool.cli.audit_reader import host_of, page_of_nodes
from winpool.cli.join_config import Quoted, dumped, pool_of
from winpool.cli.kubectl import Kubectl
from winpool.cli.parsing import Exit, note, pool_name
from winpool.cli.reader import pool_content
from winpool.features.judge import rows_of
from winpool.kube.nodes import NODES_PATH, WINDOWS_SELECTOR
from winpool.support.matrix import built_in
from winpool.support.rows import layered
from winpool.support.versions import WindowsVersion

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from winpool.api.spec import WindowsNodePoolSpec
    from winpool.features.audit.cluster import Host


DESCRIPTION: Final = """\
Print the RuntimeClass that fits a pool, as YAML for kubectl apply -f -.

It selects Windows nodes of the build in spec.os.version, and tolerates the
taints of the pool. Pods that name it in spec.runtimeClassName get both.
What is not known is printed to standard error."""

EXITS: Final = {
    Exit.YES: "the RuntimeClass is printed",
    Exit.UNKNOWN: "there is no such pool, it is not valid, or the API server cannot be asked",
}

EXAMPLES: Final = (
    ("kubectl winpool runtimeclass win-2022", "the RuntimeClass of this pool"),
    ("kubectl winpool runtimeclass win-2022 | kubectl apply -f -", "create or change it"),
)

HANDLER: Final = "runhcs-wcow-process"
"""That of containerd on Windows for process isolation, the only one that Kubernetes supports."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes on its command line."""
    parser.add_argument(
        "pool", type=pool_name, metavar="POOL", help="Print the class for this pool: NAME or wnp/NAME."
    )


def run(given: argparse.Namespace) -> int:
    """Print the class; return the exit code."""
    with Kubectl(given.flags) as kubectl:
        spec = pool_of(pool_content(kubectl, given.pool)).spec
        pages = kubectl.whole(NODES_PATH, page_of_nodes, labelSelector=WINDOWS_SELECTOR)
    nodes = (host_of(each) for page in pages for each in page.items)
    ours = [each for each in nodes if selects(spec.node_selector, each.labels)]
    build = layered(built_in(), (), rows_of(spec.support_matrix)).build_of(spec.os.version)
    if build is None:
        note(
            f"Windows Server {spec.os.version} is not in the support matrix, so the class selects no build: "
            f"add {WINDOWS_BUILD_LABEL} to its nodeSelector"
        )
    handler, problem = handler_of(ours)
    if problem:
        note(problem)
    sys.stdout.write(dumped(class_of(spec, build=build, handler=handler)))
    return Exit.YES


def handler_of(nodes: Sequence[Host]) -> tuple[str, str]:
    """Return the handler for ``nodes``, and what is wrong with it; empty where nothing is."""
    reported = {each.names[0]: {*(each.handlers or ())} - {""} for each in nodes}
    silent = sorted(name for name, handlers in reported.items() if not handlers)
    if silent or not reported:
        who = f"{silent[0]} does not report its runtime handlers" if silent else "the pool has no nodes yet"
        return HANDLER, f"{who}, so the handler is that of containerd by default: check it on the nodes"
    common = set.intersection(*reported.values())
    if HANDLER in common:
        return HANDLER, ""
    if common:
        return min(common), f"the nodes do not have the handler {HANDLER}, so the class has one that all have"
    return HANDLER, "the nodes have no runtime handler in common: check their containerd configuration"


def class_of(spec: WindowsNodePoolSpec, *, build: int | None, handler: str) -> Mapping[str, Any]:
    """Return the class of a pool; ``build`` is that of its release, None where it is not known."""
    selector = {OS_LABEL: OS_WINDOWS}
    if build is not None:
        selector[WINDOWS_BUILD_LABEL] = WindowsVersion(build).build_text
    scheduling: dict[str, Any] = {"nodeSelector": selector}
    if spec.taints:
        scheduling["tolerations"] = [
            {
                "key": Quoted(each.key),
                "operator": "Equal",
                "value": Quoted(each.value),
                "effect": str(each.effect),
            }
            for each in spec.taints
        ]
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": f"windows-{spec.os.version.lower()}"},
        "handler": handler,
        "scheduling": scheduling,
    }
