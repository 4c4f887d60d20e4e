"""Why the API server did not give what was asked for, in a sentence that says what to do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from winpool.api.keys import API_VERSION, KIND, SHORT_NAME
from winpool.kube.errors import CredentialsError, Forbidden, NotFound, Unauthorized, Unavailable, explain

if TYPE_CHECKING:
    from winpool.kube.errors import ApiError

NO_CRD: Final = (
    f"this cluster has no {KIND} of {API_VERSION}: install the CRD with kubectl apply -k crds, or choose "
    "another cluster with --context"
)

GARBLED: Final = (
    "the answer is not from a Kubernetes API server: check the address of the cluster in the kubeconfig"
)

_REQUEST: Final = re.compile(r"^(?:get|list|watch|create) [a-z./]+(?: \S+)?: ")
"""What was asked, which opens the message of an error; people asked for something else, by a verb."""


class NotAskedError(Exception):
    """The API server could not be asked, or did not answer; the text says why and what to do."""


class NoSuchPoolError(Exception):
    """The cluster has no pool of that name; the text says so."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f'there is no {KIND} "{name}" in this cluster: list the pools with kubectl get {SHORT_NAME}'
        )


def reason_of(error: ApiError) -> str:
    """Return why ``error`` came about.

    A NotFound is about the kind here: whoever asks for one object asks ``is_about`` first.
    """
    said = _REQUEST.sub("", error.message)
    match error:
        case CredentialsError():
            return said
        case NotFound():
            return NO_CRD
        case Forbidden():
            return f"the API server refuses: {_REQUEST.sub('', explain(error))}"
        case Unauthorized():
            return f"the API server does not accept the credentials of the kubeconfig: {said}"
        case Unavailable():
            return f"the API server cannot be reached, or is not healthy: {said}"
        case _:
            return f"the API server answers: {said}"


def is_about(error: NotFound, name: str) -> bool:
    """Whether it is the object ``name`` that is missing, and not its kind."""
    return f'"{name}" not found' in error.message
