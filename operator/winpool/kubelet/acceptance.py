"""Whether kubelets accept the token that they are shown.

A kubelet that refuses it (401) may be wrong, or lie. Where most refuse it, the token is no good any more: the
API server has other keys, or the account was deleted and created again.
"""

from __future__ import annotations


class Acceptance:
    """The last word of each kubelet. A minority can neither have a token renewed nor prevent it."""

    def __init__(self) -> None:
        self._accepting: set[str] = set()
        self._refusing: set[str] = set()

    def accepts(self, node: str) -> None:
        """Note that the kubelet of ``node`` has given what it gives to no one without a token."""
        self._refusing.discard(node)
        self._accepting.add(node)

    def refuses(self, node: str) -> None:
        """Note that the kubelet of ``node`` does not accept the token."""
        self._accepting.discard(node)
        self._refusing.add(node)

    def forget(self, node: str) -> None:
        """Forget a node that is polled no more."""
        self._accepting.discard(node)
        self._refusing.discard(node)

    @property
    def is_refused(self) -> bool:
        """Whether more kubelets refuse it than accept it."""
        return len(self._refusing) > len(self._accepting)
