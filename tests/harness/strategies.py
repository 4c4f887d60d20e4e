"""Hypothesis strategies for worlds of nodes and pools, small enough that things collide often.

Values say who wrote them: ``p…`` only pools, ``f…`` only others; ``same`` and the empty value are
written by both, so that what is put is now and then already there.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Final

from hypothesis import strategies as st
from msgspec.structs import replace

from harness.builders import GUARD, GUARDED, Object, a_node, a_pool, a_spec, a_taint
from harness.wishes import Wanted
from winpool.api.keys import APPLIED_ANNOTATION, OS_LABEL, OS_REVISION_LABEL, OS_VERSION_LABEL, POOL_LABEL
from winpool.api.spec import Mode, WindowsNodePoolSpec
from winpool.model.node import Node, NodeVersions, Taint
from winpool.model.pool import Pool

NASTY: Final = st.text(
    st.sampled_from("ab \n\r\t\x00\x1b[31m\x7f\x85\x9b\u2028\u2029\u202e\u2066\ufeff\ud800\xa0\\é漢😀")
)
"""Texts that are mostly made of what ends lines, moves cursors or cannot be sent."""

SELECTORS: Final[tuple[Object, ...]] = (
    {"matchLabels": {"agentpool": "red"}},
    {"matchLabels": {"agentpool": "blue"}},
    {"matchExpressions": [{"key": "agentpool", "operator": "Exists"}]},
    {"matchExpressions": [{"key": "agentpool", "operator": "NotIn", "values": ["blue"]}]},
)
LABEL_KEYS: Final = ("team", "example.com/tier", "node-role.kubernetes.io/win")
TAINT_IDENTITIES: Final = (
    ("os", "NoSchedule"),
    ("os", "PreferNoSchedule"),
    ("node.kubernetes.io/os", "NoSchedule"),
    ("gpu", "NoExecute"),
)
POOL_VALUES: Final = ("p1", "p2", "same", "")
FOREIGN_VALUES: Final = ("f1", "f2", "same", "")

TIME: Final = "2026-10-31T08:00:00Z"

EXTREME_TEXTS: Final = ("0001-01-01T00:00:01Z", "9999-12-31T23:59:59Z")
"""The first and the last time that anybody may write, as the API server gives them."""

PROTECTED_LABELS: Final = {
    "kubernetes.io/arch": "amd64",
    "node.kubernetes.io/windows-build": "10.0.20348",
    "topology.kubernetes.io/zone": "a",
    "karpenter.sh/nodepool": "win",
    "zone": "a",
}
"""Labels that no pool of these strategies asks for: no decision may ever touch them."""
PROTECTED_TAINTS: Final = (
    Taint("node.kubernetes.io/unreachable", "NoExecute", time_added=TIME),
    Taint("node.kubernetes.io/unschedulable", "NoSchedule", time_added=TIME),
    a_taint("ToBeDeletedByClusterAutoscaler=1761900000:NoSchedule"),
    a_taint("karpenter.sh/disrupted:NoSchedule"),
    a_taint("os=f1:NoExecute"),
    a_taint("dedicated=sql:NoSchedule"),
)
"""Taints that no pool of these strategies asks for, one with a key that pools use with other effects."""

RESERVED_LABELS: Final = {key: value for key, value in PROTECTED_LABELS.items() if key != "zone"}
RESERVED_TAINTS: Final = tuple(taint for taint in PROTECTED_TAINTS if taint.key not in ("dedicated", "os"))
"""Of those, what no pool at all may set: a record that names it must not be believed."""


WORD: Final = st.text(max_size=8)
VERSIONS: Final = st.sampled_from(
    (
        NodeVersions("10.0.20348.4052", "v1.36.3", "containerd://2.3.0"),
        NodeVersions("10.0.20348.1607", "v1.36.3", "containerd://2.3.0"),
        NodeVersions("10.0.17763.8000", "v1.33.1", "containerd://1.7.28"),
        NodeVersions("10.0.26100", "v1.36.3", ""),
        NodeVersions("garbage", "garbage", "garbage"),
        NodeVersions(),
    )
)
"""What nodes say they run, readable or not."""

READY: Final = st.sampled_from(("True", "True", "True", "False", "Unknown"))


def specs(*, modes: st.SearchStrategy[Mode] | None = None) -> st.SearchStrategy[WindowsNodePoolSpec]:
    """Return specs with few labels and taints; without ``modes`` all are Active."""
    values = st.sampled_from(POOL_VALUES)
    return st.builds(
        lambda selector, labels, taints, mode: a_spec(
            selector=selector,
            labels=labels,
            taints=[f"{key}={value}:{effect}" for (key, effect), value in taints.items()],
            mode=mode,
        ),
        st.sampled_from(SELECTORS),
        st.dictionaries(st.sampled_from(LABEL_KEYS), values),
        st.dictionaries(st.sampled_from(TAINT_IDENTITIES), values),
        st.just(Mode.ACTIVE) if modes is None else modes,
    )


def wishes() -> st.SearchStrategy[Wanted]:
    """Return what the pool of ``a_pool`` may want on a node."""
    values = st.sampled_from(POOL_VALUES)
    return st.builds(
        Wanted,
        pool_name=st.just("pool"),
        pool_uid=st.just("uid-of-pool"),
        labels=st.dictionaries(st.sampled_from(LABEL_KEYS), values),
        taints=st.dictionaries(st.sampled_from(TAINT_IDENTITIES), values),
        rights=st.just(GUARDED),
    )


def taint_lists() -> st.SearchStrategy[tuple[Taint, ...]]:
    """Return lists of taints as others write them, in any order, each identity once."""
    values = st.sampled_from(FOREIGN_VALUES)
    shared = st.builds(
        lambda at, value, time: Taint(at[0], at[1], value, time),
        st.sampled_from(TAINT_IDENTITIES),
        values,
        st.sampled_from((None, TIME, *EXTREME_TEXTS)),
    )
    some = st.sampled_from(PROTECTED_TAINTS) | shared
    return st.lists(some, max_size=5, unique_by=lambda taint: taint.identity).map(tuple)


def label_maps() -> st.SearchStrategy[dict[str, str]]:
    """Return labels as others write them: protected ones, and such as pools also want."""
    shared = st.dictionaries(st.sampled_from(LABEL_KEYS), st.sampled_from(FOREIGN_VALUES))
    agentpool = st.sampled_from(({"agentpool": "red"}, {"agentpool": "blue"}))
    return st.builds(lambda mine, pool: {**PROTECTED_LABELS, **mine, **pool}, shared, agentpool)


def extreme_times() -> st.SearchStrategy[datetime]:
    """Return any time that can be read of an object, of which others write most."""
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    return st.sampled_from((first, last)) | st.datetimes(timezones=st.just(UTC))


@st.composite
def nodes(draw: st.DrawFn, name: str = "w1", *, windows: bool = True) -> Node:
    """Return a node with nothing of ours on it; without ``windows`` of another or an unknown system."""
    node = a_node(
        name,
        os="windows" if windows else draw(st.sampled_from(("linux", "Windows", "", None))),
        labels=draw(label_maps()),
        taints=draw(taint_lists()),
        ready=draw(READY),
        unschedulable=draw(st.booleans()),
        deleting=draw(st.booleans()),
        versions=draw(VERSIONS),
    )
    return replace(node, ready_since=draw(st.none() | extreme_times()))


def os_labels() -> st.SearchStrategy[dict[str, str]]:
    """Return the labels that tell a node's Windows, as far as it is known."""
    return st.fixed_dictionaries(
        {},
        optional={
            OS_VERSION_LABEL: st.sampled_from(("2022", "2025")),
            OS_REVISION_LABEL: st.sampled_from(("1", "2")),
        },
    )


@st.composite
def fleets(draw: st.DrawFn, *, max_size: int = 4) -> dict[str, Node]:
    """Return a few nodes by name, one in five not Windows."""
    found = {}
    for name in (f"n{number}" for number in range(draw(st.integers(0, max_size)))):
        found[name] = draw(nodes(name, windows=draw(st.integers(0, 4)) > 0))
    return found


def pools(name: str = "pool", *, modes: st.SearchStrategy[Mode] | None = None) -> st.SearchStrategy[Pool]:
    """Return pools that no pass has seen yet."""
    return specs(modes=modes).map(lambda spec: _with_spec(a_pool(name), spec))


def _with_spec(pool: Pool, spec: WindowsNodePoolSpec) -> Pool:
    return replace(pool, spec=spec)


def _json() -> st.SearchStrategy[Any]:
    leaves = st.none() | st.booleans() | st.integers() | st.floats() | WORD
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORD, inner, max_size=3)
    )


def _entries() -> tuple[st.SearchStrategy[Any], st.SearchStrategy[Any]]:
    """Return labels and taints of a record by somebody who wants us to harm the node."""
    keys = st.sampled_from(
        (*LABEL_KEYS, *PROTECTED_LABELS, OS_LABEL, POOL_LABEL, "agentpool", "", "a b", "x/")
    )
    protected = {*PROTECTED_LABELS.values(), *(taint.value for taint in PROTECTED_TAINTS), "windows"}
    values = st.sampled_from(
        (*POOL_VALUES, *FOREIGN_VALUES, *sorted(protected), "not a value", "\ud800", None)
    )
    owned = st.fixed_dictionaries({"set": values}, optional={"before": values}) | _json()
    identities = st.sampled_from(
        (*TAINT_IDENTITIES, *(taint.identity for taint in PROTECTED_TAINTS), ("os", "Nonsense"), ("", ""))
    )
    a_taint_entry = st.builds(
        lambda at, value, before: {"key": at[0], "effect": at[1], "value": value, "before": before},
        identities,
        values,
        values,
    )
    return (
        st.dictionaries(keys, owned, max_size=6),
        st.lists(a_taint_entry | _json(), max_size=6),
    )


def hostile_records(*, uid: str = "uid-of-pool") -> st.SearchStrategy[str]:
    """Return texts of the annotation ``applied`` as anybody who may annotate nodes could write them."""
    labels, taints = _entries()
    shaped = st.fixed_dictionaries(
        {"v": st.sampled_from((1, 1, 1, 2, "1", None)), "pool": st.sampled_from((uid, uid, "other", "", 7))},
        optional={
            "labels": labels | _json(),
            "taints": taints | _json(),
            "guard": st.sampled_from((GUARD, GUARD, "another-guard", "", 7)),
        },
    ).map(json.dumps)
    return st.one_of(shaped, shaped, _json().map(json.dumps), WORD, shaped.map(lambda text: text[:-1]))


def haunted_nodes(name: str = "w1", *, uid: str = "uid-of-pool") -> st.SearchStrategy[Node]:
    """Return nodes whose record was written by a stranger, with or without the label of the pool."""
    return st.builds(
        _haunted,
        nodes(name),
        hostile_records(uid=uid),
        st.sampled_from((None, "pool", "stranger")),
    )


def _haunted(node: Node, record: str, label: str | None) -> Node:
    labels = node.labels if label is None else {**node.labels, POOL_LABEL: label}
    return replace(node, labels=labels, annotations={APPLIED_ANNOTATION: record})
