"""The page of the operator's rights, for who reviews them: ``python -m gen.rbac_reference``.

``docs/reference/rbac.md`` holds what this prints; a test compares them.
"""

from __future__ import annotations

import sys
from typing import Final

from gen.rbac_file import METRICS_FILE
from gen.rights import FORCE, METRICS, READER, RIGHTS, ROLLOUT, WITH_MEMORY, Right, Role
from winpool.api.keys import NAMESPACE, READER_ACCOUNT, SERVICE_ACCOUNT
from winpool.api.text import table

MEMORY_OVERLAY: Final = "deploy/overlays/memory"
ROLLOUT_OVERLAY: Final = "deploy/overlays/rollout"
FORCE_OVERLAY: Final = "deploy/overlays/force"

FILE: Final = "docs/reference/rbac.md"
"""Where the result is, from the root of the repository."""

COMMAND: Final = f"python -m gen.rbac_reference > {FILE}"

_BY_OVERLAY: Final = " and ".join(f"`{role.name}`" for role in WITH_MEMORY if role is not READER)

HEAD: Final = f"""\
<!-- Generated from tools/gen/rights.py. Do not edit; run: {COMMAND} -->
# Rights of the operator

[deploy/operator/rbac.yaml](../../deploy/operator/rbac.yaml) gives these rights, and no others, to the
operator's account, the ServiceAccount `{NAMESPACE}/{SERVICE_ACCOUNT}`; those of the ClusterRole
`{METRICS.name}` only with `--metrics-auth=token`, and those of
{_BY_OVERLAY} only with
[{MEMORY_OVERLAY}](../operator/memory.md), those of `{ROLLOUT.name}` only with
[{ROLLOUT_OVERLAY}](../operator/rollouts.md), and that of `{FORCE.name}` only with
[{FORCE_OVERLAY}](../operator/rollouts.md#force). There is no wildcard, no right to read Secrets or
ConfigMaps, and no right to create or change a pod. Without one of these overlays there is none to evict one,
and without the last there is none to delete one.

"""

FOOT: Final = f"""
*Used by* names the modules below `operator/winpool` that make these requests.

The ClusterRole `{METRICS.name}` and its binding come with what turns on `--metrics-auth=token`: the component
`deploy/components/metrics-tls`, or `metrics.auth=token` in the chart. If you set the flag in another way, run
`kubectl apply -f {METRICS_FILE}`.

The ClusterRole `{READER.name}` is that of another account, the ServiceAccount
`{NAMESPACE}/{READER_ACCOUNT}`. Its token is what the operator shows to kubelets. `{MEMORY_OVERLAY}`
brings it, with the rights for memory pressure, and so does `memory.enabled=true` in the chart.

The ClusterRole `{ROLLOUT.name}` and its binding come with `{ROLLOUT_OVERLAY}`, or with
`rollout.enabled=true` in the chart. The ClusterRole `{FORCE.name}` and its binding come with
`{FORCE_OVERLAY}`, or with `rollout.force=true` in addition.

RBAC cannot say which fields of a node or of a pool the operator may change.
[The fence](../fence.md) does, for the same account.

Kubernetes itself lets every ServiceAccount read discovery (such as `/apis` and `/version`), health checks
and, since 1.37, ClusterTrustBundles, and review its own rights. The test `tests/cluster/test_rbac.py` names
each of these rights. It asks a real API server, with the operator's token, about every verb on every
resource, and makes the requests that would do harm: what is not in the table is refused.

The roles for people are in [roles-for-people.yaml](../../deploy/operator/roles-for-people.yaml).
"""


def render() -> str:
    """Return the page: Markdown with a header that says where it comes from."""
    rows = (
        (_right(each), _scope(each.role), each.reason, ", ".join(f"`{path}`" for path in each.used_by))
        for each in RIGHTS
    )
    return HEAD + table(("Right", "Scope", "Reason", "Used by"), rows) + FOOT


def _right(right: Right) -> str:
    resources = " and ".join(f"`{_full(each, right.group)}`" for each in right.resources)
    named = f" named {' or '.join(f'`{name}`' for name in right.names)}" if right.names else ""
    return f"{', '.join(right.verbs)} {resources}{named}"


def _full(resource: str, group: str) -> str:
    """Return resource and group as kubectl writes them, such as ``windowsnodepools.winpool.dev/status``."""
    kind, slash, subresource = resource.partition("/")
    return f"{kind}{f'.{group}' if group else ''}{slash}{subresource}"


def _scope(role: Role) -> str:
    if role.account != SERVICE_ACCOUNT:
        return f"cluster (ClusterRole `{role.name}` of the ServiceAccount `{role.account}`)"
    if role.namespace:
        return f"namespace `{role.namespace}` (Role `{role.name}`)"
    return f"cluster (ClusterRole `{role.name}`)"


def main() -> None:
    """Print the page."""
    sys.stdout.write(render())


if __name__ == "__main__":
    main()
