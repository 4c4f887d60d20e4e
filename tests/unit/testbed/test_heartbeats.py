"""The pace of heartbeats: a kubelet's own up to a thousand nodes, and one rate for any more."""

from pathlib import Path

import pytest

from harness.testbed_parts import LAYOUT, PORTS
from testbed import components
from testbed.heartbeats import Heartbeats, heartbeats
from testbed.options import Options


@pytest.mark.parametrize(
    ("options", "duration", "grace"),
    [
        (Options(), 40, None),
        (Options(windows=1000), 40, None),
        (Options(windows=600, linux=400), 40, None),
        (Options(windows=1001), 41, 52),
        (Options(windows=5000), 200, 250),
        (Options(windows=4000, linux=1000), 200, 250),
        (Options(windows=5000, node_monitor_grace_seconds=16), 200, 16),
        (Options(windows=5000, lease_duration_seconds=40), 40, None),
        (Options(windows=12, lease_duration_seconds=80), 80, 100),
        (Options(windows=12, lease_duration_seconds=4), 4, None),
        (Options(windows=12, node_monitor_grace_seconds=16), 40, 16),
    ],
)
def test_the_pace_is_chosen_from_the_number_of_nodes_unless_an_option_says_otherwise(
    options: Options, duration: int, grace: int | None
) -> None:
    assert heartbeats(options) == Heartbeats(
        lease_duration_seconds=duration, node_monitor_grace_seconds=grace
    )


@pytest.mark.parametrize("nodes", [1001, 1999, 2500, 5000, 7333])
def test_a_stretched_fleet_renews_no_faster_than_a_thousand_nodes_do(nodes: int) -> None:
    pace = heartbeats(Options(windows=nodes))
    assert pace.stretched
    assert 97 < nodes / pace.lease_period_seconds <= 100
    assert pace.node_monitor_grace_seconds is not None
    assert pace.node_monitor_grace_seconds >= 5 * pace.lease_period_seconds


def test_it_is_told_in_a_sentence() -> None:
    assert str(heartbeats(Options(windows=5000))) == (
        "Leases are renewed every 50 s, node-monitor-grace 250 s"
    )
    assert not heartbeats(Options(windows=1000)).stretched


def test_the_simulator_and_the_controller_manager_hear_of_it() -> None:
    options = Options(windows=5000)
    made = components.control_plane(LAYOUT, ports=PORTS, options=options, binary=Path("/binary"))
    kcm = next(command for command in made if command.name == components.KCM)
    assert "--node-monitor-grace-period=250s" in kcm.argv
    winsim = components.winsim(LAYOUT, ports=PORTS, options=options)
    assert "--lease-duration-seconds=200" in winsim.argv
    assert "--control-socket=/somewhere/tb/fleet.sock" in winsim.argv
    assert "--roster=/somewhere/tb/fleet.json" in winsim.argv
