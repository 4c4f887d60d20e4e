"""What is made of the words of ``kubectl create --raw``."""

from __future__ import annotations

import pytest

from winpool.cli.validate import faults_of

HEAD = 'The WindowsNodePool "win" is invalid: '


@pytest.mark.parametrize(
    ("said", "faults"),
    [
        (f"{HEAD}spec.os: Required value", "spec.os: Required value"),
        (f"{HEAD}* spec.os: Required value * spec.x: y", "spec.os: Required value, spec.x: y"),
        (f"{HEAD}spec.os: so it is invalid: x", "spec.os: so it is invalid: x"),
        (
            'Error from server (BadRequest): unknown field "spec.x"',
            'unknown field "spec.x"',
        ),
    ],
)
def test_faults_are_told_without_their_wrapping(said: str, faults: str) -> None:
    assert faults_of(said) == faults
