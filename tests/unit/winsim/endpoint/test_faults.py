"""What a broken endpoint sends, and what may be said about it."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from testbed.winsim.endpoint.faults import Fault, FaultKind, spoiled
from testbed.winsim.mistakes import sentences
from testbed.winsim.verbs import VERBS

BODY = b'{"node":{"nodeName":"w01","memory":{"time":"x","usageBytes":5,"workingSetBytes":7}}}'
TEXT = b'# HELP a bytes\n# TYPE a gauge\na 5\nb{file="C:\\\\pagefile.sys"} 6.5 17\n'


def test_a_well_node_sends_what_it_means() -> None:
    assert spoiled(BODY, fault=None, json=True) == BODY
    assert spoiled(BODY, fault=Fault(kind="slow", seconds=1), json=True) == BODY


def test_garbage_is_neither_json_nor_text() -> None:
    garbage = spoiled(BODY, fault=Fault(kind="garbage"), json=True)
    with pytest.raises(UnicodeDecodeError):
        garbage.decode()


def test_a_huge_answer_is_a_good_one_with_megabytes_behind_it() -> None:
    huge = spoiled(BODY, fault=Fault(kind="huge"), json=True)
    assert len(huge) > 8 << 20
    assert json.loads(huge) == json.loads(BODY)


@pytest.mark.parametrize(
    ("kind", "written"), [("zeros", "0"), ("nan", "NaN"), ("overflow", "9223372036854775808")]
)
def test_numbers_of_bytes_become_what_no_counter_can_be(kind: FaultKind, written: str) -> None:
    sent = spoiled(BODY, fault=Fault(kind=kind), json=True).decode()
    assert sent == BODY.decode().replace(":5", f":{written}").replace(":7", f":{written}")
    lines = spoiled(TEXT, fault=Fault(kind=kind), json=False).decode().splitlines()
    assert lines[2:] == [f"a {written}", f'b{{file="C:\\\\pagefile.sys"}} {written} 17']


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"fault": "flu"}, "Input should be"),
        ({"fault": "forbidden", "endpoint": "exporter"}, "an exporter cannot have the fault forbidden"),
        ({"fault": "hang", "seconds": "5s"}, "seconds go with slow, trickle, clock_behind, not with hang"),
        ({"fault": "hang", "name": "w02"}, "a name goes with other_node, not with hang"),
        ({"fault": "slow", "seconds": "soon"}, "is not a length of time"),
        ({}, "is missing"),
    ],
)
def test_a_mistake_about_a_fault_is_said_in_a_sentence(given: dict[str, str], sentence: str) -> None:
    model = VERBS["set_endpoint_fault"]
    with pytest.raises(ValidationError) as caught:
        model.model_validate({"nodes": 1, **given})
    assert any(sentence.lower() in each.lower() for each in sentences(caught.value, model=model, where="x"))
