"""Names every end of a poll, with a sentence for people about each.

A sentence has no names, no counts and no text from the answer. So it stays the same while its cause lasts,
and no answer can put words or a token into it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Outcome(StrEnum):
    """How a poll of a kubelet, or a query of Prometheus, has ended. Only SAMPLED gives a sample."""

    SAMPLED = "Sampled"
    NO_ADDRESS = "NoAddress"
    REFUSED_ADDRESS = "RefusedAddress"
    NO_TOKEN = "NoToken"  # noqa: S105 - not a token
    NO_CONNECTION = "NoConnection"
    CERTIFICATE = "Certificate"
    TIMEOUT = "Timeout"
    UNAUTHORIZED = "Unauthorized"
    FORBIDDEN = "Forbidden"
    REDIRECTED = "Redirected"
    SERVER_ERROR = "ServerError"
    TOO_LARGE = "TooLarge"
    UNREADABLE = "Unreadable"
    WRONG_NODE = "WrongNode"
    NO_NUMBERS = "NoNumbers"
    """It has answered, and nothing of the answer is a current number."""
    NO_SERIES = "NoSeries"
    """Prometheus has answered, and not about this node."""


KUBELET_SENTENCES: Final[Mapping[Outcome, str]] = {
    Outcome.SAMPLED: "The kubelet has sent a sample.",
    Outcome.NO_ADDRESS: (
        "The node reports no InternalIP that is an IP address, or no valid port of its kubelet. Check the "
        "status of the node, and the flag --node-ip of its kubelet."
    ),
    Outcome.REFUSED_ADDRESS: (
        "The operator does not send a token to the address that the node reports: it is that of the API "
        "server, or one that no kubelet of another machine has. Check the status of the node."
    ),
    Outcome.NO_TOKEN: (
        "The operator has no token for kubelets. Check that the ServiceAccount winpool-kubelet-reader "
        "exists, and that the operator may create tokens for it."
    ),
    Outcome.NO_CONNECTION: (
        "The operator cannot connect to the kubelet. Check that the node is up, and that network policies "
        "and firewalls permit connections from the operator to the port of the kubelet."
    ),
    Outcome.CERTIFICATE: (
        "The operator does not trust the certificate of the kubelet. Set the CA of the kubelets in the "
        "settings of the operator. The certificate must be for the address or the name of the node."
    ),
    Outcome.TIMEOUT: "The kubelet did not answer in time. Check the load of the node.",
    Outcome.UNAUTHORIZED: (
        "The kubelet does not accept the token of the ServiceAccount winpool-kubelet-reader. Set "
        "authentication.webhook.enabled to true in the configuration of the kubelet, and check that the "
        "kubelet reaches the API server, which reviews the token."
    ),
    Outcome.FORBIDDEN: (
        "The kubelet refuses the request. Grant the ServiceAccount winpool-kubelet-reader the right to get "
        "nodes/stats and nodes/configz."
    ),
    Outcome.REDIRECTED: (
        "The kubelet answers with a redirect, and the operator follows none. Check what listens on the port "
        "of the kubelet."
    ),
    Outcome.SERVER_ERROR: "The kubelet answers with an error. Check the log of the kubelet.",
    Outcome.TOO_LARGE: (
        "The answer of the kubelet is larger than 1 MiB. Check what listens on the port of the kubelet."
    ),
    Outcome.UNREADABLE: (
        "The operator cannot read the answer of the kubelet. Check what listens on the port of the kubelet."
    ),
    Outcome.WRONG_NODE: (
        "The answer is about another node. Check that no two nodes report the same InternalIP."
    ),
    Outcome.NO_NUMBERS: (
        "The kubelet answers without current numbers of the memory of the node. Check its log for errors of "
        "performance counters, and restart the kubelet."
    ),
}
"""What is wrong with a poll of a kubelet, and what to do."""

PROMETHEUS_SENTENCES: Final[Mapping[Outcome, str]] = {
    Outcome.SAMPLED: "Prometheus has sent samples.",
    Outcome.NO_TOKEN: (
        "The operator cannot read the token or password for Prometheus. Check that file of the data source "
        "in the settings of the operator: one line of printable ASCII without spaces."
    ),
    Outcome.NO_CONNECTION: (
        "The operator cannot connect to Prometheus. Check the URL of the data source in the settings of the "
        "operator, and that network policies permit the connection."
    ),
    Outcome.CERTIFICATE: (
        "The operator does not trust the certificate of Prometheus. Set the CA of the data source in the "
        "settings of the operator. The certificate must be for the host of the URL."
    ),
    Outcome.TIMEOUT: "Prometheus did not answer in time. Check its load.",
    Outcome.UNAUTHORIZED: (
        "Prometheus answers that credentials are missing or not valid. Set or renew the token file, "
        "basicAuth or headers of the data source. If it takes none of these, put a proxy before it that adds "
        "what it takes."
    ),
    Outcome.FORBIDDEN: (
        "Prometheus refuses the query. Grant the user of the token or password the right to query it. If the "
        "data source has neither, set one, or put a proxy before Prometheus that adds the credentials."
    ),
    Outcome.REDIRECTED: (
        "Prometheus answers with a redirect, and the operator follows none. Set the URL that it redirects "
        "to in the settings of the operator."
    ),
    Outcome.SERVER_ERROR: (
        "Prometheus answers with an error. Check its log, and that it answers queries: a Prometheus Agent "
        "answers none."
    ),
    Outcome.TOO_LARGE: (
        "Prometheus answers with more than 16 MiB or 20,000 series. Check that the matchers of the data "
        "source select windows_exporter alone, and remove long labels from its series."
    ),
    Outcome.UNREADABLE: (
        "The operator cannot read the answer. Check that the URL of the data source is that of the "
        "Prometheus HTTP API, without /api/v1."
    ),
    Outcome.NO_NUMBERS: (
        "Prometheus has no current numbers of the memory of the node. Check that it can scrape "
        "windows_exporter there, and that the collector memory is enabled."
    ),
    Outcome.NO_SERIES: (
        "Prometheus has no series of windows_exporter for the node, or more than one. Check that "
        "windows_exporter runs there and is scraped by one job, that its series have the labels in the "
        "matchers of the data source, and that `nodeLabel` is the label that has the name of the node."
    ),
}
"""What is wrong with the queries of a data source, and what to do. The other outcomes do not occur there."""


class PollError(Exception):
    """A poll gave no sample.

    The detail is what is known besides the sentence of ``outcome``: a few words for logs, of our own or of
    the TLS library, never from the answer.
    """

    def __init__(self, outcome: Outcome, detail: str) -> None:
        super().__init__(f"{outcome}: {detail}")
        self.outcome = outcome
