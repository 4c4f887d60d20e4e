"""The story: a pool is applied, judges, drifts, is repaired, refuses nonsense, leaves without a trace."""

from __future__ import annotations

import json

from demo.narrator import Narrator, operator_command, shell_words
from testbed.cluster import Testbed

SAMPLE = "deploy/samples/win-2022.yaml"
POOL = "win-2022"

NODES = "kubectl get nodes -L agentpool,winpool.dev/pool,team"
TAINTS = (
    "kubectl get nodes -l agentpool=win22 "
    "-o custom-columns='NAME:.metadata.name,TAINTS:.spec.taints[*].key,LABEL-TEAM:.metadata.labels.team'"
)

STATUS = f"kubectl winpool status {POOL}"

EFFECTS = ("NoSchedule", "NoExecute")

BAD_MANIFEST = """\
apiVersion: winpool.dev/v1alpha1
kind: WindowsNodePool
metadata: {name: too-much}
spec:
  nodeSelector: {matchLabels: {agentpool: win22}}
  os: {version: "2022"}
  labels: {kubernetes.io/os: linux}
"""


def tell(testbed: Testbed) -> None:
    """Tell it on ``testbed``, which has the CRD, the rights and the nodes already."""
    narrator = Narrator(testbed)
    _before(narrator)
    _start_operator(narrator, testbed)
    _apply(narrator)
    _support(narrator, testbed)
    _drift(narrator)
    _brake(narrator)
    _memory(narrator)
    _refuse(narrator)
    _dry_run(narrator)
    _delete(narrator)


def _before(narrator: Narrator) -> None:
    narrator.chapter(
        "A cluster with Windows nodes: two revisions of Windows Server 2022, and two Linux nodes"
    )
    narrator.run("kubectl label nodes -l kubernetes.io/os=windows agentpool=win22")
    narrator.run("kubectl get nodes -L kubernetes.io/os,agentpool")


def _start_operator(narrator: Narrator, testbed: Testbed) -> None:
    narrator.chapter("The operator starts, with its own ServiceAccount")
    # Pods are looked at every ten minutes by default. Nobody waits for that long before a demo.
    command = operator_command(testbed, "--port", "0", "--pod-pass-seconds", "5")
    narrator.say(f"running in the background: {shell_words(command)}")
    testbed.run("operator", command)


def _apply(narrator: Narrator) -> None:
    narrator.chapter("One WindowsNodePool says what the nodes must be")
    narrator.run(f"cat {SAMPLE}")
    narrator.run(f"kubectl apply -f {SAMPLE}")
    narrator.run(f"kubectl wait --for=condition=NodesUpToDate --timeout=60s wnp/{POOL}")
    narrator.run("kubectl get wnp")
    narrator.run(NODES)
    narrator.run(f"kubectl describe wnp {POOL}")


def _support(narrator: Narrator, testbed: Testbed) -> None:
    narrator.chapter(
        "A node with Windows Server 2025 joins: the status says whether it is supported, until when, and why"
    )
    extra = ("--prefix=win25", "--label=agentpool=win22", "--windows-sample=2025@v1.34.1")
    testbed.run("winsim-2025", testbed.winsim_command(windows=1, extra=extra))
    narrator.say("its kubelet has version 1.34")
    narrator.wait(STATUS, until=lambda output: "10.0.26100" in output)
    narrator.run("kubectl winpool matrix --os 2025")


def _drift(narrator: Narrator) -> None:
    narrator.chapter("A person removes a label and a taint by hand: the operator restores them")
    node = json.loads(narrator.quiet("kubectl get nodes -l agentpool=win22 -o json"))["items"][0]
    name = node["metadata"]["name"]
    narrator.run(f"kubectl label node {name} team-")
    narrator.run(f"kubectl taint node {name} os=windows:NoSchedule-")
    narrator.wait(
        f"kubectl get node {name} -o custom-columns="
        "'NAME:.metadata.name,TEAM:.metadata.labels.team,TAINTS:.spec.taints[*].key'",
        until=lambda output: "payments" in output and " os" in output,
    )
    narrator.wait(f"kubectl events --for node/{name}", until=lambda output: "DriftRepaired" in output)


def _brake(narrator: Narrator) -> None:
    narrator.chapter(
        "A NoExecute taint would delete a pod: the operator holds the taint, and an issue says why"
    )
    node = json.loads(narrator.quiet("kubectl get nodes -l agentpool=win22 -o json"))["items"][0]
    name = node["metadata"]["name"]
    overrides = json.dumps({"spec": {"nodeName": name}})
    narrator.run(f"kubectl run web --image=registry.example.com/team/web:1.0 --overrides='{overrides}'")
    narrator.run("kubectl wait --for=condition=Ready --timeout=60s pod/web")
    patch = json.dumps(
        {"spec": {"taints": [{"key": "os", "value": "windows", "effect": effect} for effect in EFFECTS]}}
    )
    narrator.run(f"kubectl patch wnp {POOL} --type=merge -p '{patch}'")
    narrator.run(f"kubectl wait --for=condition=Stalled --timeout=60s wnp/{POOL}")
    narrator.run("kubectl get wnp")
    narrator.run(STATUS)
    narrator.run("kubectl get pod web")
    narrator.run("kubectl delete pod web --now")
    narrator.wait(
        f"kubectl get node {name} -o custom-columns='NAME:.metadata.name,TAINTS:.spec.taints[*].effect'",
        until=lambda output: "NoExecute" in output,
    )


def _memory(narrator: Narrator) -> None:
    narrator.chapter(
        "Reserved memory: the operator compares what the pool declares with what the kubelets reserve"
    )
    patch = json.dumps({"spec": {"reservedMemory": {"systemReserved": "2Gi", "kubeReserved": "512Mi"}}})
    narrator.run(f"kubectl patch wnp {POOL} --type=merge -p '{patch}'")
    narrator.wait(STATUS, until=lambda output: "ReservedMemoryMismatch" in output)
    narrator.run(f"kubectl winpool join-config {POOL} -o flags")
    narrator.run(f"kubectl get wnp {POOL} -o jsonpath='{{.status.nodeTemplate}}'")


def _refuse(narrator: Narrator) -> None:
    narrator.chapter("The API server refuses a pool with a forbidden label, and says why")
    narrator.run(f"kubectl apply -f - <<'EOF'\n{BAD_MANIFEST}EOF", refused=True)


def _dry_run(narrator: Narrator) -> None:
    narrator.chapter("DryRun shows what a change would do, and writes to no node")
    patch = json.dumps({"spec": {"mode": "DryRun", "labels": {"team": "billing"}}})
    narrator.run(f"kubectl patch wnp {POOL} --type=merge -p '{patch}'")
    narrator.wait("kubectl get wnp -o wide", until=lambda output: output.count("DryRun") > 1)
    narrator.run(STATUS)


def _delete(narrator: Narrator) -> None:
    narrator.chapter("The pool is deleted: every node is as it was before")
    narrator.run(f"kubectl delete wnp {POOL}")
    narrator.run(TAINTS)
