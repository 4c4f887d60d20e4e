"""What a pod tolerates, as Kubernetes has it, and what is evidence that it cannot run where it is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.pods import a_pod, an_agent
from winpool.model.pods import Toleration, misplaced_because, tolerates

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def does(
    *tolerations: Toleration, effect: str = "NoSchedule", key: str = "os", value: str = "windows"
) -> bool:
    return tolerates(tolerations, key=key, value=value, effect=effect)


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration("os", "Equal", "windows", "NoSchedule"), True),
        (Toleration("os", "", "windows", "NoSchedule"), True),
        (Toleration("os", "Equal", "windows", ""), True),
        (Toleration("os", "Exists", "", "NoSchedule"), True),
        (Toleration("os", "Exists"), True),
        (Toleration("", "Exists"), True),
        (Toleration("", "Exists", "", "NoSchedule"), True),
        (Toleration("", "Exists", "", "NoExecute"), False),
        (Toleration("os", "Equal", "Windows", "NoSchedule"), False),
        (Toleration("OS", "Equal", "windows", "NoSchedule"), False),
        (Toleration("os", "Equal", "", "NoSchedule"), False),
        (Toleration("os", "Equal", "windows", "PreferNoSchedule"), False),
        (Toleration("node.kubernetes.io/os", "Exists"), False),
        (Toleration("os", "Gt", "windows", "NoSchedule"), False),
        (Toleration("os", "Lt", "1"), False),
        (Toleration("os", "exists"), False),
    ],
    ids=str,
)
def test_one_toleration_and_one_taint(toleration: Toleration, expected: bool) -> None:
    assert does(toleration) is expected


def test_an_empty_value_is_a_value_like_any_other() -> None:
    assert does(Toleration("os", "Equal"), value="")
    assert not does(Toleration("os", "Equal", "windows"), value="")


@pytest.mark.parametrize("effect", EFFECTS)
def test_nothing_tolerates_nothing(effect: str) -> None:
    assert not does(effect=effect)


@pytest.mark.parametrize("seconds", [0, 300, -1])
def test_a_limited_time_is_no_toleration_of_what_deletes_pods(seconds: int) -> None:
    limited = Toleration("os", "Exists", seconds=seconds)
    assert not does(limited, effect="NoExecute")
    assert does(limited, effect="NoSchedule")


def test_of_several_that_match_the_first_decides_how_long() -> None:
    limited, for_ever = Toleration("os", "Exists", seconds=60), Toleration("", "Exists")
    other = Toleration("dedicated", "Exists", seconds=60)
    assert not does(limited, for_ever, effect="NoExecute")
    assert does(for_ever, limited, effect="NoExecute")
    assert does(other, for_ever, effect="NoExecute")


def test_an_operator_that_is_not_known_may_be_what_decides() -> None:
    """With the feature gate of KEP-5471 it matches and the pod has to go, without it the next one counts."""
    for_ever = Toleration("", "Exists")
    assert not does(Toleration("os", "Gt", "5", seconds=60), for_ever, effect="NoExecute")
    assert does(Toleration("os", "Gt", "5"), for_ever, effect="NoExecute")
    assert does(Toleration("os", "Gt", "5", seconds=60), for_ever, effect="NoSchedule")


TOLERATIONS = st.builds(
    Toleration,
    key=st.sampled_from(["", "os", "dedicated"]),
    operator=st.sampled_from(["", "Equal", "Exists", "Gt"]),
    value=st.sampled_from(["", "windows", "sql"]),
    effect=st.sampled_from(["", *EFFECTS]),
    seconds=st.none() | st.integers(-1, 600),
)


@given(
    st.lists(TOLERATIONS, max_size=4),
    st.sampled_from(["os", "dedicated"]),
    st.sampled_from(["", "windows", "sql"]),
    st.sampled_from(EFFECTS),
)
def test_more_tolerations_never_tolerate_less_of_what_only_schedules(
    tolerations: list[Toleration], key: str, value: str, effect: str
) -> None:
    fits = [tolerates([each], key=key, value=value, effect=effect) for each in tolerations]
    together = tolerates(tolerations, key=key, value=value, effect=effect)
    if effect == "NoExecute":
        assert together <= any(fits)
    else:
        assert together == any(fits)


def test_evidence_for_a_pod_on_the_wrong_machine() -> None:
    assert misplaced_because(a_pod()) == ""
    assert misplaced_because(a_pod(os="windows")) == ""
    assert misplaced_because(a_pod(os="linux")) == "its spec.os.name is linux"
    assert misplaced_because(a_pod(platform_problem="ErrImagePull: no")) == "ErrImagePull: no"
    assert misplaced_because(a_pod(os="linux", is_finished=True)) == "its spec.os.name is linux"


def test_a_pod_that_is_going_is_no_longer_misplaced() -> None:
    assert misplaced_because(a_pod(os="linux", is_terminating=True)) == ""
    assert misplaced_because(a_pod(platform_problem="PodOSNotSupported", is_terminating=True)) == ""


def test_what_a_pod_is_of() -> None:
    assert an_agent().is_of_daemon_set
    assert not a_pod().is_of_daemon_set
    assert a_pod("shop/web-1").full_name == "shop/web-1"
    assert a_pod().heeds_taints
    for way in ("is_finished", "is_terminating", "is_mirror"):
        changes: dict[str, Any] = {way: True}
        assert not a_pod(**changes).heeds_taints
