"""The rules of the audit against the API server: what it refuses, drops and accepts is what the table says.

Each case is created as a dry run, as a Pod and as the template of a Deployment, with and without
``spec.os.name``. What the API server would store is audited again: a field that it has accepted is found
there, and one that it has dropped is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from harness.every import every
from harness.windows_pods import ACCEPTED, ALWAYS_REFUSED, GATED, REFUSED, Case, in_a_deployment, without_os
from testbed.api import Api, ApiError
from testbed.cluster import Testbed
from testbed.pins import chosen_pins
from winpool.features.audit.audit import findings
from winpool.features.audit.rules import RULES, Outcome, Rule
from winpool.features.audit.workloads import workload_of
from winpool.support.versions import Minor, parse_minor

Object = dict[str, Any]
Asked = Callable[[Object], "tuple[Outcome, Object]"]

PATHS: Final = {
    "Pod": "/api/v1/namespaces/default/pods",
    "Deployment": "/apis/apps/v1/namespaces/default/deployments",
}
BY_CODE: Final[dict[str, Rule]] = {rule.code: rule for rule in RULES}


@pytest.fixture(scope="module")
def minor() -> Minor:
    """The minor of the API server that the tests run on."""
    found = parse_minor(chosen_pins().kubernetes)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def ask(testbed: Testbed) -> Asked:
    api = testbed.api()
    return lambda content: asked(api, content)


def asked(api: Api, content: Object) -> tuple[Outcome, Object]:
    """Return whether the API server accepts an object, and what it would store or the Status of a refusal."""
    try:
        stored = api.create(PATHS[content["kind"]], content, fieldValidation="Strict", dryRun="All")
    except ApiError as error:
        if error.answer["reason"] != "Invalid":
            raise
        return Outcome.REFUSED, error.answer
    return Outcome.ACCEPTED, stored


def forms(pod: Object) -> Iterator[tuple[str, Object]]:
    """Yield a pod and a Deployment of it, each with what stands before the fields of the pod."""
    yield "", pod
    yield "spec.template.", in_a_deployment(pod)


def is_found(case: Case, content: Object, minor: Minor, *, at: str) -> bool:
    """Whether the audit finds the case in an object."""
    workload = workload_of(content)
    assert workload is not None
    found = {(each.rule.code, each.field) for each in findings(workload, minor)}
    return (case.code, f"{at}{case.at}") in found


def is_named(case: Case, status: Object, *, at: str) -> bool:
    """Whether a refusal names the field of the case, or one above it."""
    field = f"{at}{case.at}"
    named = [each["field"] for each in status["details"]["causes"]]
    return any(field == each or field.startswith(f"{each}.") for each in named)


@every("case", (*REFUSED, *GATED), ids=str)
@pytest.mark.parametrize("is_os_named", [True, False], ids=["with-os-name", "without-os-name"])
def test_a_field_is_refused_dropped_or_accepted_as_the_table_says(
    case: Case, ask: Asked, minor: Minor, is_os_named: bool
) -> None:
    rule = BY_CODE[case.code]
    if rule.since is not None and minor < rule.since:
        return  # the API server does not know the field: kubectl refuses the manifest
    expected = rule.outcome(minor, is_os_named=is_os_named)
    for at, content in forms(case.found if is_os_named else without_os(case.found)):
        outcome, answer = ask(content)
        if expected is Outcome.REFUSED:
            assert outcome is Outcome.REFUSED
            assert is_named(case, answer, at=at), answer["message"]
        else:
            assert outcome is Outcome.ACCEPTED, answer["message"]
            assert is_found(case, answer, minor, at=at) is (expected is Outcome.ACCEPTED)


@every("case", ALWAYS_REFUSED, ids=str)
def test_what_is_refused_always_is_refused_and_what_is_near_is_not(case: Case, ask: Asked) -> None:
    is_about_linux = case.code == "R22"
    pods = [case.found] if is_about_linux else [case.found, without_os(case.found)]
    for pod in pods:
        for at, content in forms(pod):
            outcome, answer = ask(content)
            assert outcome is Outcome.REFUSED
            assert is_named(case, answer, at=at), answer["message"]
    for _, content in forms(case.near):
        outcome, answer = ask(content)
        assert outcome is Outcome.ACCEPTED, answer


def test_options_for_windows_are_accepted_where_no_os_is_named(ask: Asked) -> None:
    for case in ALWAYS_REFUSED:
        if case.code == "R22":
            outcome, answer = ask(without_os(case.found))
            assert outcome is Outcome.ACCEPTED, answer


@every("case", ACCEPTED, ids=str)
def test_what_does_not_run_is_accepted_without_a_word(case: Case, ask: Asked) -> None:
    """That is why it is audited."""
    for pod in (case.found, without_os(case.found)):
        for _, content in forms(pod):
            outcome, answer = ask(content)
            assert outcome is Outcome.ACCEPTED, answer
