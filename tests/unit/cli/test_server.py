"""What is made of the API server's answers."""

from __future__ import annotations

import pytest

from winpool.cli.server import faults_of

HEAD = 'create windowsnodepools: 422 WindowsNodePool.winpool.dev "win" is invalid: '


@pytest.mark.parametrize(
    ("message", "faults"),
    [
        (f"{HEAD}spec.os: Required value", "spec.os: Required value"),
        (f"{HEAD}[spec.os: Required value, spec.x: y]", "spec.os: Required value, spec.x: y"),
        (
            f"{HEAD}[spec.os: Required value, spec.x: is inv",
            "spec.os: Required value, spec.x: is inv… and more",
        ),
        (f"{HEAD}spec.os: so it is invalid: x", "spec.os: so it is invalid: x"),
        ('create windowsnodepools: 400 unknown field "x"', 'create windowsnodepools: 400 unknown field "x"'),
    ],
)
def test_faults_are_told_without_their_wrapping(message: str, faults: str) -> None:
    assert faults_of(message) == faults
