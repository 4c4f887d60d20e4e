"""The files that give the operator its rights: ``python -m gen.rbac_file``.

``deploy/operator`` holds what this prints. The components of ``deploy/components`` that need further rights
hold what it prints with the argument ``metrics-auth``, ``memory``, ``rollout`` or ``force``. A test compares
them.
"""

from __future__ import annotations

import sys
import textwrap
from typing import Any, Final

from gen.rights import FORCE, INSTALLED, METRICS, ROLLOUT, WITH_MEMORY, Right, Role, rights_of
from winpool.api.crd import file_of, manifest, text_of
from winpool.api.keys import NAMESPACE

FILE: Final = "deploy/operator/rbac.yaml"
"""Where the rights of every installation are, from the root of the repository."""

COMMAND: Final = f"python -m gen.rbac_file > {FILE}"

HEADER: Final = f"""\
# Every right of the operator, each with its reason. No wildcard, no Secrets, no get of pools, nodes or pods.
# Generated from tools/gen/rights.py. Do not edit; run: {COMMAND}
"""

METRICS_ARGUMENT: Final = "metrics-auth"

METRICS_FILE: Final = "deploy/components/metrics-tls/metrics-auth.yaml"
"""Where the rights for ``--metrics-auth`` are, from the root of the repository."""

METRICS_COMMAND: Final = f"python -m gen.rbac_file {METRICS_ARGUMENT} > {METRICS_FILE}"

METRICS_HEADER: Final = f"""\
# What an operator with --metrics-auth=token may do in addition: ask the API server whose a token is.
# Generated from tools/gen/rights.py. Do not edit; run:
# {METRICS_COMMAND}
"""

MEMORY_ARGUMENT: Final = "memory"

MEMORY_FILE: Final = "deploy/components/memory/memory-rights.yaml"
"""Where the rights for memory pressure are, from the root of the repository."""

MEMORY_COMMAND: Final = f"python -m gen.rbac_file {MEMORY_ARGUMENT} > {MEMORY_FILE}"

MEMORY_HEADER: Final = f"""\
# What memory pressure needs in addition, and what the token may do that kubelets are shown.
# Generated from tools/gen/rights.py. Do not edit; run:
# {MEMORY_COMMAND}
"""

ROLLOUT_ARGUMENT: Final = "rollout"

ROLLOUT_FILE: Final = "deploy/components/rollout/rollout-rights.yaml"
"""Where the rights for a rollout are, from the root of the repository."""

ROLLOUT_COMMAND: Final = f"python -m gen.rbac_file {ROLLOUT_ARGUMENT} > {ROLLOUT_FILE}"

ROLLOUT_HEADER: Final = f"""\
# What an operator that drains nodes may do in addition: evict pods, and see whether workloads are back.
# Generated from tools/gen/rights.py. Do not edit; run:
# {ROLLOUT_COMMAND}
"""

FORCE_ARGUMENT: Final = "force"

FORCE_FILE: Final = "deploy/components/force/force-rights.yaml"
"""Where the right to delete pods by force is, from the root of the repository."""

FORCE_COMMAND: Final = f"python -m gen.rbac_file {FORCE_ARGUMENT} > {FORCE_FILE}"

FORCE_HEADER: Final = f"""\
# What an operator may do in addition whose drains delete the pods that are left in the end.
# Generated from tools/gen/rights.py. Do not edit; run:
# {FORCE_COMMAND}
"""

GROUP: Final = "rbac.authorization.k8s.io"

_COMMENT: Final = "# "
_WIDTH: Final = 110


def documents(*roles: Role) -> list[dict[str, Any]]:
    """Return the roles, each with its binding."""
    return [document for role in roles for document in (role_of(role), binding_of(role))]


def role_of(role: Role) -> dict[str, Any]:
    """Return the Role or ClusterRole with the rules of its rows."""
    kind = "Role" if role.namespace else "ClusterRole"
    return _manifest(kind, role, rules=[rule_of(each) for each in rights_of(role)])


def binding_of(role: Role) -> dict[str, Any]:
    """Return what gives a role to its ServiceAccount."""
    kind = "Role" if role.namespace else "ClusterRole"
    return _manifest(
        f"{kind}Binding",
        role,
        roleRef={"apiGroup": GROUP, "kind": kind, "name": role.name},
        subjects=[{"kind": "ServiceAccount", "name": role.account, "namespace": NAMESPACE}],
    )


def rule_of(right: Right) -> dict[str, Any]:
    """Return the rule of a row."""
    return {
        "apiGroups": [right.group],
        "resources": [*right.resources],
        **({"resourceNames": [*right.names]} if right.names else {}),
        "verbs": [*right.verbs],
    }


def render() -> str:
    """Return the file: YAML with a header that says where it comes from, and the reason beside each rule."""
    return _file(HEADER, *INSTALLED)


def render_metrics() -> str:
    """Return the file of the rights for ``--metrics-auth``, as ``render`` does."""
    return _file(METRICS_HEADER, METRICS)


def render_memory() -> str:
    """Return the file of the rights for memory pressure, as ``render`` does."""
    return _file(MEMORY_HEADER, *WITH_MEMORY)


def render_rollout() -> str:
    """Return the file of the rights for a rollout, as ``render`` does."""
    return _file(ROLLOUT_HEADER, ROLLOUT)


def render_force() -> str:
    """Return the file of the right to delete pods by force, as ``render`` does."""
    return _file(FORCE_HEADER, FORCE)


_RENDER: Final = {
    METRICS_ARGUMENT: render_metrics,
    MEMORY_ARGUMENT: render_memory,
    ROLLOUT_ARGUMENT: render_rollout,
    FORCE_ARGUMENT: render_force,
}


def _file(header: str, *roles: Role) -> str:
    return file_of(header, (text for role in roles for text in (_role_text(role), text_of(binding_of(role)))))


def _manifest(kind: str, role: Role, **parts: Any) -> dict[str, Any]:
    return manifest(kind, api_version=f"{GROUP}/v1", name=role.name, namespace=role.namespace, **parts)


def _role_text(role: Role) -> str:
    head = {key: part for key, part in role_of(role).items() if key != "rules"}
    rules = (f"{_comment(each.reason)}{text_of([rule_of(each)], flow=True)}" for each in rights_of(role))
    return f"{text_of(head)}rules:\n{''.join(rules)}"


def _comment(reason: str) -> str:
    return textwrap.fill(reason, _WIDTH, initial_indent=_COMMENT, subsequent_indent=_COMMENT) + "\n"


def main() -> None:
    """Print the file, or the one that the argument names."""
    sys.stdout.write(_RENDER[sys.argv[1]]() if sys.argv[1:] else render())


if __name__ == "__main__":
    main()
