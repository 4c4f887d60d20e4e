"""Keeps what is known of the cluster that workloads are to run in, and says which of its nodes take a pod.

What is not known is None: a rule that needs it finds nothing, and the audit says that it was not judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from winpool.api.fields import is_taint_key_allowed
from winpool.api.keys import NO_EXECUTE
from winpool.api.text import enumerate_names
from winpool.model.node import Taint
from winpool.model.pods import Toleration, tolerates
from winpool.support.compat import Isolation

_NO_SCHEDULE: Final = "NoSchedule"
_KEEPING: Final = (_NO_SCHEDULE, NO_EXECUTE)
"""Effects that keep pods away. PreferNoSchedule does not."""


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that are alike for every pod: their versions, as nodeInfo has them, labels and taints.

    ``taints`` is None for a host of which only the Windows version is known: it may have any other label.
    ``handlers`` are the runtime handlers by name, and whether each makes mounts read-only recursively; None
    where the runtime reports none. ``names`` are those of the nodes.
    """

    kernel: str = ""
    runtime: str = ""
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    taints: tuple[Taint, ...] | None = None
    handlers: Mapping[str, bool] | None = None
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        version = self.kernel or "an unknown Windows version"
        return f"{version} ({enumerate_names(self.names)})" if self.names else version


class RuntimeClass(msgspec.Struct, frozen=True):
    """A RuntimeClass: its handler, and what it adds to the node selector and the tolerations of its pods."""

    handler: str = ""
    node_selector: Mapping[str, Any] = msgspec.field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()

    @classmethod
    def of(cls, content: Any) -> RuntimeClass:
        """Read one, which may have any types."""
        fields = _map(content)
        scheduling, handler = _map(fields.get("scheduling")), fields.get("handler")
        return cls(
            handler if isinstance(handler, str) else "",
            _map(scheduling.get("nodeSelector")),
            tolerations_of(scheduling.get("tolerations")),
        )


class Limits(msgspec.Struct, frozen=True):
    """The memory that the LimitRanges of a namespace give to containers that set none, as written."""

    limit: str | int | None = None
    request: str | int | None = None


class Selection(msgspec.Struct, frozen=True):
    """Where a pod may go: labels that a node must have, terms of required node affinity, tolerations.

    ``terms`` is None without required affinity. ``node`` is the node that the pod is bound to, if any.
    """

    labels: Mapping[str, Any]
    terms: Sequence[Any] | None
    tolerations: tuple[Toleration, ...]
    node: str = ""

    @classmethod
    def of(cls, spec: Any, added: RuntimeClass) -> Selection:
        """Read that of a pod with this ``spec``, and with what its RuntimeClass adds."""
        fields = _map(spec)
        required = _map(fields.get("affinity"))
        for name in ("nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"):
            required = _map(required.get(name))
        terms, node = required.get("nodeSelectorTerms"), fields.get("nodeName")
        return cls(
            {**added.node_selector, **_map(fields.get("nodeSelector"))},
            terms if isinstance(terms, list) else None,
            (*tolerations_of(fields.get("tolerations")), *added.tolerations),
            node if isinstance(node, str) else "",
        )

    def selects(self, host: Host) -> bool:
        """Whether a host has the labels that the pod asks for, or may have them."""
        if self.node and host.names:
            return self.node in host.names
        if any(not _has(host, key, value) for key, value in self.labels.items()):
            return False
        return self.terms is None or any(_fits(host, each) for each in self.terms)

    def untolerated(self, host: Host) -> list[Taint]:
        """Return the taints of a host that keep the pod away.

        Taints that come and go with the state of a node do not count.
        """
        if self.node:
            return []
        return [
            each
            for each in host.taints or ()
            if each.effect in _KEEPING
            and is_taint_key_allowed(each.key)
            and not tolerates(self.tolerations, key=each.key, value=each.value, effect=each.effect)
        ]

    def is_taken_by(self, host: Host) -> bool:
        """Whether a host would take the pod, as far as is known."""
        return self.selects(host) and not self.untolerated(host)


class Reach(NamedTuple):
    """The Windows hosts that a pod selects, and those of them that take it.

    ``is_on_linux`` says that a Linux node takes it too; also where that is not known.
    """

    selected: tuple[Host, ...]
    taken: tuple[Host, ...]
    is_on_linux: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cluster:
    """What is known. ``hosts`` are Windows nodes, or the Windows versions that someone asks about.

    ``is_chosen`` says that someone has chosen them: other Windows nodes may exist. ``linux`` are the Linux
    nodes. ``has_all_classes`` says that no other RuntimeClass exists. ``limits`` and ``enforced``, the level
    of Pod Security, are by namespace, and absent where it has none. ``image_build`` is the Windows that all
    images are said to be for.
    """

    hosts: tuple[Host, ...] | None = None
    is_chosen: bool = False
    linux: tuple[Host, ...] | None = None
    runtime_classes: Mapping[str, RuntimeClass] = field(default_factory=dict)
    has_all_classes: bool = False
    limits: Mapping[str, Limits] | None = None
    enforced: Mapping[str, str] | None = None
    image_build: str = ""
    isolation: Isolation = Isolation.PROCESS
    _reaches: dict[str, Reach] = field(default_factory=dict, init=False, repr=False)
    """Most pods of a cluster select alike, so each selection is asked once."""

    @property
    def has_nodes(self) -> bool:
        """Whether labels and taints of Windows nodes are known."""
        return self.hosts is not None and all(each.taints is not None for each in self.hosts)

    def reach(self, selection: Selection) -> Reach | None:
        """Return which hosts a pod may get to; None where none is known."""
        if self.hosts is None:
            return None
        key = repr(selection)
        found = self._reaches.get(key)
        if found is None:
            selected = tuple(each for each in self.hosts if selection.selects(each))
            found = self._reaches[key] = Reach(
                selected,
                tuple(each for each in selected if not selection.untolerated(each)),
                self.linux is None or any(map(selection.is_taken_by, self.linux)),
            )
        return found


NOTHING_KNOWN: Final = Cluster()


def tolerations_of(found: Any) -> tuple[Toleration, ...]:
    """Read tolerations, which may have any types."""
    return tuple(_toleration(each) for each in (found if isinstance(found, list) else ()))


def _toleration(found: Any) -> Toleration:
    fields = _map(found)
    seconds = fields.get("tolerationSeconds")
    return Toleration(
        key=_text(fields.get("key")),
        # Of what is no toleration an operator that matches nothing.
        operator=_text(fields.get("operator")) if fields else "None",
        value=_text(fields.get("value")),
        effect=_text(fields.get("effect")),
        seconds=seconds if isinstance(seconds, int) else None,
    )


def alike(hosts: Iterable[Host], keys: Iterable[str]) -> tuple[Host, ...]:
    """Return ``hosts`` with those together that differ in their names and in labels beside ``keys`` only."""
    wanted, found = frozenset(keys), dict[Any, tuple[Host, list[str]]]()
    for each in hosts:
        labels = {key: value for key, value in each.labels.items() if key in wanted}
        handlers = None if each.handlers is None else frozenset(each.handlers.items())
        key = (each.kernel, each.runtime, frozenset(labels.items()), each.taints, handlers)
        found.setdefault(key, (replace(each, labels=labels), []))[1].extend(each.names)
    return tuple(replace(each, names=tuple(names)) for each, names in found.values())


def _has(host: Host, key: str, value: Any) -> bool:
    if host.taints is None and key not in host.labels:
        return True
    return bool(host.labels.get(key) == value)


def _fits(host: Host, term: Any) -> bool:
    """Whether a host fits a term; one without any expression fits none."""
    expressions, fields = (_map(term).get(name) or [] for name in ("matchExpressions", "matchFields"))
    if not (isinstance(expressions, list) and isinstance(fields, list)) or not (expressions or fields):
        return False
    return all(_meets(host, each) for each in expressions) and all(
        _has_name(host, _map(each)) for each in fields
    )


def _has_name(host: Host, expression: Mapping[str, Any]) -> bool:
    """Whether a host may fit an expression about ``metadata.name``, the only field there is."""
    values, is_in = _values(expression), expression.get("operator") == "In"
    return not host.names or any((each in values) is is_in for each in host.names)


def _meets(host: Host, written: Any) -> bool:
    expression = _map(written)
    key, operator, values = expression.get("key"), expression.get("operator"), _values(expression)
    if not isinstance(key, str):
        return False
    label = host.labels.get(key)
    if label is None:
        return host.taints is None or operator in ("NotIn", "DoesNotExist")
    if operator in ("In", "NotIn"):
        return (label in values) is (operator == "In")
    if operator in ("Gt", "Lt"):
        return _compares(label, operator, values)
    return bool(operator == "Exists")


def _compares(label: str, operator: str, values: Sequence[Any]) -> bool:
    try:
        ours, theirs = int(label), int(values[0])
    except (ValueError, TypeError, IndexError):
        return False
    return ours > theirs if operator == "Gt" else ours < theirs


def _values(expression: Mapping[str, Any]) -> Sequence[Any]:
    found = expression.get("values")
    return found if isinstance(found, list) else ()


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
