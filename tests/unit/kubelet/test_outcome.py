"""What people read about a poll that gave no sample."""

from __future__ import annotations

import pytest

from winpool.kubelet.samples import KUBELET_SENTENCES, PROMETHEUS_SENTENCES, Outcome

OF_KUBELETS_ALONE = {Outcome.NO_ADDRESS, Outcome.REFUSED_ADDRESS, Outcome.WRONG_NODE}
OF_PROMETHEUS_ALONE = {Outcome.NO_SERIES}


def test_every_outcome_has_its_sentences() -> None:
    assert set(KUBELET_SENTENCES) == set(Outcome) - OF_PROMETHEUS_ALONE
    assert set(PROMETHEUS_SENTENCES) == set(Outcome) - OF_KUBELETS_ALONE


@pytest.mark.parametrize("table", [KUBELET_SENTENCES, PROMETHEUS_SENTENCES])
def test_a_failure_has_a_sentence_that_says_what_is_wrong_and_one_that_says_what_to_do(
    table: dict[Outcome, str],
) -> None:
    for outcome, sentence in table.items():
        if outcome is Outcome.SAMPLED:
            continue
        wrong, to_do = sentence.rstrip(".").split(". ", 1)
        assert wrong
        assert to_do.split()[0] in {"Check", "Grant", "Remove", "Set"}, sentence
        assert sentence.endswith(".")
