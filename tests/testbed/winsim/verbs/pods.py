"""What pods do on some nodes: set_pods_ready."""

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from testbed.winsim.verbs.base import PodNames, SelectingVerb

if TYPE_CHECKING:
    from testbed.winsim.entries import Entry
    from testbed.winsim.fleet import Fleet


class SetPodsReady(SelectingVerb):
    """Make containers of DaemonSets or pods not Ready on nodes while they run, or Ready again."""

    verb: ClassVar = "set_pods_ready"

    pods: PodNames = Field(min_length=1, description="NAMESPACE/NAME of DaemonSets, or of pods themselves")
    ready: bool = Field(description="true or false")

    def concerns(self, entry: "Entry") -> bool:
        """Only a machine on which one of them is in the other state would change."""
        named = frozenset(self.pods)
        return bool(named & entry.unready_pods) if self.ready else not named <= entry.unready_pods

    async def act(self, fleet: "Fleet", names: tuple[str, ...]) -> tuple[str, ...]:
        """Return when it has been told to the kubelets, who report it at once; so of pods that come later."""
        await fleet.set_pods_ready(names, self.pods, ready=self.ready)
        return names
