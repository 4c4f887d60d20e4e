"""Expressions that compare an object with the one before: what of it a write may change.

They are for the fence. A policy that uses them has the variables ``name`` and ``oldName`` (``old_and_new``).
None of them can fail, since one that fails refuses the request: any field may be missing.

Source: https://kubernetes.io/docs/reference/using-api/cel/.
"""

from __future__ import annotations

from typing import Final

from winpool.api.admission import named, validation
from winpool.api.rules import cel_list

SERVER_SET: Final = ("managedFields", "resourceVersion", "generation", "creationTimestamp", "uid")
"""Fields of metadata that the API server sets, whatever is sent."""


def old_and_new(name: str, path: str) -> tuple[dict[str, str], ...]:
    """Return the variables ``name`` and ``oldName``: what is at ``path``, sent and before."""
    return named(name, f"dyn(object).{path}"), named(_old(name), f"dyn(oldObject).{path}")


def _old(name: str) -> str:
    return f"old{name[0].upper()}{name[1:]}"


def _now_and_before(name: str) -> tuple[str, str]:
    return f"variables.{name}", f"variables.{_old(name)}"


def unchanged(name: str) -> str:
    """Return that a variable is what it was before."""
    now, before = _now_and_before(name)
    return f"{now} == {before}"


def rule(expression: str, message: str) -> dict[str, str]:
    """Return a rule about updates. What is created or deleted, the first rule of each policy refuses."""
    if "request.operation" not in expression:
        expression = f"request.operation != 'UPDATE' || ({expression})"
    return validation(expression, message=message)


def same_but(part: str, *, but: tuple[str, ...]) -> dict[str, str]:
    """Return the rule that of ``part`` of the object only the fields in ``but`` change."""
    now, before = f"dyn(object).?{part}.orValue({{}})", f"dyn(oldObject).?{part}.orValue({{}})"
    changed = (
        f"{now}.all(field, field in {cel_list(but)} || {now}[?field] == {before}[?field])"
        f" && {before}.all(field, field in {cel_list(but)} || field in {now})"
    )
    allowed = [each for each in but if each not in SERVER_SET]
    return rule(changed, f"of {part} the operator writes only {', '.join(allowed)}")


def only_open_entries(name: str, is_open: str) -> str:
    """Return that two maps differ only in keys for which ``is_open`` holds, which names ``key``."""
    now, before = _now_and_before(name)
    return (
        f"{unchanged(name)}"
        f" || ({now}.all(key, {now}[?key] == {before}[?key] || {is_open})"
        f" && {before}.all(key, key in {now} || {is_open}))"
    )


def only_open_items(name: str, item: str, is_open: str) -> str:
    """Return that two lists differ only in items for which ``is_open`` holds, which names ``item``."""
    now, before = _now_and_before(name)
    return (
        f"{now}.all({item}, {item} in {before} || {is_open})"
        f" && {before}.all({item}, {item} in {now} || {is_open})"
    )


def no_new_entries(name: str, may_change: str) -> str:
    """Return that a map has no new key, and a new value only where ``may_change`` holds.

    ``may_change`` names ``key``.
    """
    now, before = _now_and_before(name)
    return f"{now}.all(key, key in {before} && ({now}[?key] == {before}[?key] || {may_change}))"


def no_new_taints(which: str) -> str:
    """Return that no taint was added for which ``which`` holds, which names ``taint``.

    One with another value is another taint: pods may tolerate the old value only.
    """
    return (
        f"variables.taints.all(taint, !({which}) || variables.oldTaints.exists(old,"
        " old.key == taint.key && old.effect == taint.effect"
        " && old.?value.orValue('') == taint.?value.orValue('')))"
    )
