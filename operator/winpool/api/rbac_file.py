"""The file that gives the operator its rights: ``python -m winpool.api.rbac_file``.

``deploy/operator`` holds what this prints; a test compares them.
"""

import sys
import textwrap
from typing import Any, Final

from winpool.api.keys import NAMESPACE, SERVICE_ACCOUNT
from winpool.api.manifests import file_of, manifest, text_of
from winpool.api.rbac import ROLES, Right, Role, rights_of

FILE: Final = "deploy/operator/rbac.yaml"
"""Where the result is, from the root of the repository."""

COMMAND: Final = f"python -m winpool.api.rbac_file > {FILE}"

HEADER: Final = f"""\
# Every right of the operator, each with its reason. No wildcard, no Secrets, no get of pools, nodes or pods.
# Generated from operator/winpool/api/rbac.py. Do not edit; run: {COMMAND}
"""

GROUP: Final = "rbac.authorization.k8s.io"

_COMMENT: Final = "# "
_WIDTH: Final = 110


def documents() -> list[dict[str, Any]]:
    """Return the roles, each with its binding."""
    return [document for role in ROLES for document in (role_of(role), binding_of(role))]


def role_of(role: Role) -> dict[str, Any]:
    """Return the Role or ClusterRole with the rules of its rows."""
    kind = "Role" if role.namespace else "ClusterRole"
    return _manifest(kind, role, rules=[rule_of(each) for each in rights_of(role)])


def binding_of(role: Role) -> dict[str, Any]:
    """Return what gives a role to the operator's ServiceAccount."""
    kind = "Role" if role.namespace else "ClusterRole"
    return _manifest(
        f"{kind}Binding",
        role,
        roleRef={"apiGroup": GROUP, "kind": kind, "name": role.name},
        subjects=[{"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": NAMESPACE}],
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
    return file_of(HEADER, (text for role in ROLES for text in (_role_text(role), text_of(binding_of(role)))))


def _manifest(kind: str, role: Role, **parts: Any) -> dict[str, Any]:
    return manifest(kind, api_version=f"{GROUP}/v1", name=role.name, namespace=role.namespace, **parts)


def _role_text(role: Role) -> str:
    head = {key: part for key, part in role_of(role).items() if key != "rules"}
    rules = (f"{_comment(each.reason)}{text_of([rule_of(each)], flow=True)}" for each in rights_of(role))
    return f"{text_of(head)}rules:\n{''.join(rules)}"


def _comment(reason: str) -> str:
    return textwrap.fill(reason, _WIDTH, initial_indent=_COMMENT, subsequent_indent=_COMMENT) + "\n"


def main() -> None:
    """Print the file."""
    sys.stdout.write(render())


if __name__ == "__main__":
    main()
