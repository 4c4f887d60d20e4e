"""News is taken in by its age, and a node is gone only where that was said."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

from winpool.kube.watch import Store
from winpool.kube.wire import is_older
from winpool.model.node import Node

Change = tuple[Node | None, Node | None]


def a_node(version: str = "5", *, name: str = "w1", uid: str = "u1", mark: str = "") -> Node:
    return Node(name, uid, version, {"mark": mark}, {}, (), unschedulable=False, ready="True")


class Seen(list[Change]):
    """Collects what a store tells."""

    def __call__(self, old: Node | None, new: Node | None) -> None:
        self.append((old, new))


def a_store(*nodes: Node) -> tuple[Store[Node], Seen]:
    seen = Seen()
    store: Store[Node] = Store(seen)
    for node in nodes:
        store.put(node)
    seen.clear()
    return store, seen


def test_only_a_wanted_field_that_differs_is_told() -> None:
    store, seen = a_store()
    assert store.put(a_node("5"))
    assert store.put(a_node("6"))
    assert seen == [(None, a_node("5"))]
    assert store.objects["w1"].resource_version == "6"
    assert store.put(a_node("7", mark="x"))
    assert seen[1:] == [(a_node("6"), a_node("7", mark="x"))]


def test_an_older_state_is_dropped() -> None:
    store, seen = a_store(a_node("10"))
    assert not store.put(a_node("9", mark="old"))
    assert not store.remove(a_node("9"))
    assert store.objects == {"w1": a_node("10")}
    assert seen == []


def test_an_equal_version_replaces() -> None:
    store, seen = a_store(a_node("10", mark="guess"))
    assert store.put(a_node("10", mark="truth"))
    assert seen == [(a_node("10", mark="guess"), a_node("10", mark="truth"))]


def test_versions_without_an_order_are_taken_as_they_come() -> None:
    store, _ = a_store(a_node("b"))
    assert store.put(a_node("a", mark="x"))
    assert store.remove(a_node("zz"))


def test_another_uid_is_a_deletion_and_an_addition() -> None:
    old, new = a_node("5"), a_node("9", uid="u2")
    store, seen = a_store(old)
    assert store.put(new)
    assert seen == [(old, None), (None, new)]
    assert not store.remove(a_node("10", uid="u1")), "the old one's late deletion must not take the new one"
    assert store.objects["w1"] is new


def test_a_write_of_ours_is_seen_at_once_and_older_echoes_are_dropped() -> None:
    store, seen = a_store(a_node("5"))
    written = a_node("8", mark="ours")
    assert store.accept_written(written)
    assert seen == [(a_node("5"), written)]
    assert not store.put(a_node("7", mark="before"))
    assert store.put(a_node("8", mark="ours"))
    assert len(seen) == 1
    assert store.put(a_node("9", mark="theirs"))
    assert store.objects["w1"].labels["mark"] == "theirs"


def test_a_write_of_ours_resurrects_nothing() -> None:
    store, seen = a_store(a_node("5"))
    store.remove(a_node("6"))
    assert not store.accept_written(a_node("8"))
    store.put(a_node("9", uid="u2"))
    assert not store.accept_written(a_node("10", uid="u1"))
    assert not store.accept_written(a_node("8", uid="u2"))
    assert not store.accept_written(a_node("opaque", uid="u2"))
    assert store.objects["w1"] == a_node("9", uid="u2")
    assert len(seen) == 2


def test_a_complete_list_tells_who_is_gone() -> None:
    store, seen = a_store(a_node("5", name="a"), a_node("6", name="b"))
    store.keep_only({"a"})
    assert seen == [(a_node("6", name="b"), None)]
    assert set(store.objects) == {"a"}


def test_a_restored_server_is_believed_when_asked_to() -> None:
    store, _ = a_store(a_node("50", name="a"), a_node("60", name="b"))
    assert store.put(a_node("5", name="a", mark="backup"), even_older=True)
    store.keep_only({"a"})
    assert store.objects == {"a": a_node("5", name="a", mark="backup")}


class StoreMachine(RuleBasedStateMachine):
    """Any news in any order: what was told adds up to what is held, and no node goes back in time."""

    def __init__(self) -> None:
        super().__init__()
        self.told: dict[str, Node] = {}
        self.highest: dict[str, str] = {}
        self.store: Store[Node] = Store(self.take)

    def take(self, old: Node | None, new: Node | None) -> None:
        assert (old is None) or (new is None) or old.uid == new.uid
        if old is not None:
            assert self.told.pop(old.name) == old
        if new is not None:
            assert new.name not in self.told
            self.told[new.name] = new

    nodes = st.builds(
        a_node,
        st.integers(1, 30).map(str),
        name=st.sampled_from(["a", "b"]),
        uid=st.sampled_from(["u1", "u2"]),
        mark=st.sampled_from(["", "x"]),
    )

    @rule(node=nodes)
    def put(self, node: Node) -> None:
        self.store.put(node)

    @rule(node=nodes)
    def accept_written(self, node: Node) -> None:
        self.store.accept_written(node)

    @rule(node=nodes)
    def remove(self, node: Node) -> None:
        self.store.remove(node)
        if node.name not in self.store.objects:
            self.highest.pop(node.name, None)

    @rule(names=st.sets(st.sampled_from(["a", "b"])))
    def keep_only(self, names: set[str]) -> None:
        before = dict(self.store.objects)
        self.store.keep_only(names)
        for name in before:
            assert (name in self.store.objects) == (name in names)
            if name not in names:
                self.highest.pop(name, None)

    @invariant()
    def what_was_told_is_what_is_held(self) -> None:
        assert dict(self.store.objects) == self.told

    @invariant()
    def no_node_goes_back(self) -> None:
        for name, node in self.store.objects.items():
            seen = self.highest.get(name)
            assert seen is None or not is_older(node.resource_version, seen)
            self.highest[name] = node.resource_version


TestStore = StoreMachine.TestCase


def test_the_view_is_live_and_read_only() -> None:
    store, _ = a_store()
    view = store.objects
    store.put(a_node())
    assert list(view) == ["w1"]
    assert not hasattr(view, "__setitem__")
    assert replace(view["w1"]) == a_node()
