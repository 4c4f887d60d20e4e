"""The strategic merge patch that a kubelet sends to ``nodes/<name>/status``, and one of others to the Node.

Pure; the form of ``PatchNodeStatus`` in component-helpers (``node/util/status.go``): only what
differs, conditions merged by type, lists whole, addresses replaced explicitly because their
merge key would otherwise join old and new ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from testbed.winsim.machines import Machine
    from testbed.winsim.objects import Address, Condition, Node


def status_patch(seen: Node, wanted: Node) -> dict[str, Any]:
    """Return the patch that turns ``seen`` into ``wanted``; empty where nothing differs."""
    patch: dict[str, Any] = {}
    metadata = _differences(
        {"labels": seen.metadata.labels, "annotations": seen.metadata.annotations},
        {"labels": wanted.metadata.labels, "annotations": wanted.metadata.annotations},
    )
    if metadata:
        patch["metadata"] = metadata
    status = _status(seen, wanted)
    if status:
        patch["status"] = status
    return patch


def range_patch(machine: Machine, *, pod_cidr: str, flannel: bool) -> dict[str, Any]:
    """Return the patch by which the controller manager gives a range of pod addresses to a node.

    With ``flannel``, the annotations of its agent (``pkg/subnet/kube``) are in it, which in truth come later.
    """
    patch: dict[str, Any] = {"spec": {"podCIDR": pod_cidr, "podCIDRs": [pod_cidr]}}
    if flannel:
        mac = ":".join(f"{int(part):02x}" for part in machine.address.split("."))
        known = {
            "backend-data": f'{{"VNI":4096,"VtepMAC":"00:15:{mac}"}}',
            "backend-type": "vxlan",
            "kube-subnet-manager": "true",
            "public-ip": machine.address,
        }
        patch["metadata"] = {
            "annotations": {f"flannel.alpha.coreos.com/{key}": v for key, v in known.items()}
        }
    return patch


def _status(seen: Node, wanted: Node) -> dict[str, Any]:
    before, after = msgspec.to_builtins(seen.status), msgspec.to_builtins(wanted.status)
    for special in ("conditions", "addresses"):
        before.pop(special, None)
        after.pop(special, None)
    patch = _differences(before, after)
    if changed := _conditions(seen.status.conditions, wanted.status.conditions):
        patch["conditions"] = changed
        patch["$setElementOrder/conditions"] = [{"type": each.type} for each in wanted.status.conditions]
    if seen.status.addresses != wanted.status.addresses:
        patch["addresses"] = _addresses(wanted.status.addresses, replacing=bool(seen.status.addresses))
    return patch


def _conditions(seen: tuple[Condition, ...], wanted: tuple[Condition, ...]) -> list[dict[str, Any]]:
    before = {each.type: msgspec.to_builtins(each) for each in seen}
    changed = []
    for each in wanted:
        difference = _differences(before.get(each.type, {}), msgspec.to_builtins(each))
        if difference:
            changed.append({**difference, "type": each.type})
    return changed


def _addresses(wanted: tuple[Address, ...], *, replacing: bool) -> list[dict[str, Any]]:
    addresses: list[dict[str, Any]] = [msgspec.to_builtins(each) for each in wanted]
    if replacing:
        addresses.append({"$patch": "replace"})
    return addresses


def _differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Compare two JSON objects deeply; a key that is gone becomes null, as merge patches say it."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            if nested := _differences(old, value):
                patch[key] = nested
        elif key not in before or old != value:
            patch[key] = value
    return patch
