"""Texts of others that stand in issues: as sentences, and without the name of one node."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winpool.status.events import NODE, nameless, sentence


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("move to a newer release", "Move to a newer release."),
        ("Only vendors support it.", "Only vendors support it."),
        ("is it there?", "Is it there?"),
        ("403 denied", "403 denied."),
        ("cut…", "Cut…"),
    ],
)
def test_a_text_becomes_a_sentence_once(text: str, expected: str) -> None:
    assert sentence(text) == sentence(sentence(text)) == expected


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("w1", 'nodes "w1" is forbidden', 'nodes "NODE" is forbidden'),
        ("w1", "system:node:w1 and w1.example.com", "system:node:NODE and NODE.example.com"),
        ("w1", "w12, aw1 and w1", "w12, aw1 and NODE"),
        ("a.b", "a.b, axb", "NODE, axb"),
        ("win-03.corp.example.com", "machine WIN-03 is frozen", "machine NODE is frozen"),
        ("win-03.corp.example.com", "WIN-03.corp.Example.com, win-031", "NODE, win-031"),
        ("w1", "W1 and İW1, W1", "NODE and İW1, NODE"),
        ("10.0.0.2", "10 of 10.0.0.2", "10 of NODE"),
        ("node.example.com", "the node node.example.com", "the node NODE"),
        ("w1", "request 0A1B2C3D-0000-4000-8000-000000000001 of w1", "request UID of NODE"),
    ],
)
def test_a_name_is_taken_out_as_a_word_and_so_are_identifiers(name: str, text: str, expected: str) -> None:
    assert nameless(text, name=name) == expected


@given(st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?", fullmatch=True), st.text(max_size=20))
def test_what_is_said_of_nodes_alike_is_the_same_for_all(name: str, rest: str) -> None:
    assert nameless(f'nodes "{name}" {rest}', name=name) == nameless(f'nodes "{NODE}" {rest}', name=name)
