"""Simulated nodes in the cluster of a person never take the name of a node that is there."""

import pytest

from testbed.errors import TestbedError
from testbed.guests import MOST_NODES, parser, refuse_others

NODES = [{"metadata": {"name": "simulated-w01"}}, {"metadata": {"name": "akswin000001"}}]


def test_names_that_are_taken_are_refused() -> None:
    refuse_others(["simulated-w02"], NODES)
    with pytest.raises(TestbedError, match="nodes of these names: simulated-w01"):
        refuse_others(["simulated-w01", "simulated-w02"], NODES)


@pytest.mark.parametrize("count", ["0", "-1", "many", str(MOST_NODES + 1)])
def test_a_number_of_nodes_that_makes_no_sense_is_refused(
    count: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["join", f"--windows={count}"])
    assert "is not a number of nodes" in capsys.readouterr().err
