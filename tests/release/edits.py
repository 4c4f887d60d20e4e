"""Where a value goes in a manifest: each edit replaces a text of it, which it must have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from alerts.render import Source
from release.addresses import Addresses


@dataclass(frozen=True, slots=True)
class Edit:
    """Replaces ``old`` by ``new``, exactly ``count`` times."""

    old: str
    new: str
    count: int = 1


NO_TEMPLATE: Final = {"namespace.yaml"}
"""Helm keeps its record of a release in the namespace, which must exist before (docs/helm.md)."""

WRAPPED: Final = {
    "windowsnodepools.winpool.dev.yaml": ".Values.crd.create",
    "kubelet-egress.yaml": "and .Values.memory.enabled .Values.networkPolicy.create",
    "kubelet-reader.yaml": ".Values.memory.enabled",
    "memory-rights.yaml": ".Values.memory.enabled",
    "metrics-auth.yaml": 'ne .Values.metrics.auth "none"',
    "networkpolicy.yaml": ".Values.networkPolicy.create",
    "poddisruptionbudget.yaml": "gt (int .Values.replicas) 1",
    "podmonitor.yaml": ".Values.monitoring.prometheusOperator",
    "prometheusrule.yaml": ".Values.monitoring.prometheusOperator",
    "rollout-rights.yaml": ".Values.rollout.enabled",
    "force-rights.yaml": "and .Values.rollout.enabled .Values.rollout.force",
    "resourcequota.yaml": "and .Values.resourceQuota.create .Values.priorityClassName",
}
"""Files that are applied under a condition only."""


def _after(old: str, added: str) -> Edit:
    return Edit(old, old + added)


def _passed_on(value: str, *, field: str = "", indent: int) -> str:
    """Return lines that have a value as it is, below a field where one is named; none if it is empty."""
    space = " " * indent
    head = f"{space}{field}:\n" if field else ""
    deeper = indent + 2 if field else indent
    return (
        f"{space}{{{{- with {value} }}}}\n"
        f"{head}{space}{{{{- toYaml . | nindent {deeper} }}}}\n"
        f"{space}{{{{- end }}}}\n"
    )


_LABELS: Final = Edit(
    "    app.kubernetes.io/name: winpool\nspec:\n",
    f"    app.kubernetes.io/name: winpool\n{_passed_on('.Values.monitoring.labels', indent=4)}spec:\n",
)

_DEPLOYMENT: Final = (
    Edit("  replicas: 2\n", "  replicas: {{ .Values.replicas }}\n"),
    Edit(
        "      priorityClassName: system-cluster-critical\n",
        "      {{- with .Values.priorityClassName }}\n"
        "      priorityClassName: {{ . | quote }}\n"
        "      {{- end }}\n",
    ),
    _after(
        "              - key: winpool.dev/pool\n                operator: DoesNotExist\n",
        _passed_on(".Values.affinity.nodeExpressions", indent=14)
        + _passed_on(
            ".Values.affinity.preferredNodes",
            field="preferredDuringSchedulingIgnoredDuringExecution",
            indent=10,
        )
        + _passed_on(".Values.affinity.podAffinity", field="podAffinity", indent=8)
        + _passed_on(".Values.affinity.podAntiAffinity", field="podAntiAffinity", indent=8),
    ),
    Edit(
        "      containers:\n",
        _passed_on(".Values.nodeSelector", field="nodeSelector", indent=6)
        + _passed_on(".Values.tolerations", field="tolerations", indent=6)
        + "      {{- with .Values.image.pullSecrets }}\n"
        "      imagePullSecrets:\n"
        "      {{- range . }}\n"
        "      - name: {{ . | quote }}\n"
        "      {{- end }}\n"
        "      {{- end }}\n"
        "      containers:\n",
    ),
    Edit(
        "        # The images entry in kustomization.yaml sets registry and tag.\n        image: winpool\n",
        '        image: {{ include "winpool.image" . }}\n',
    ),
    Edit(
        "        imagePullPolicy: IfNotPresent\n", "        imagePullPolicy: {{ .Values.image.pullPolicy }}\n"
    ),
    Edit(
        "        args: [run]\n"
        "        # Settings are variables, since an overlay can change one of them by its name: "
        "docs/operator.md.\n",
        "        args:\n        - run\n" + _passed_on(".Values.extraArgs", indent=8),
    ),
    Edit(
        "        - name: WINPOOL_LOG_FORMAT\n          value: json\n",
        "        - name: WINPOOL_LOG_FORMAT\n          value: {{ .Values.log.format }}\n",
    ),
    _after(
        '        - name: WINPOOL_HEALTH_PORT\n          value: "8081"\n',
        '        {{- if ne .Values.log.level "info" }}\n'
        "        - name: WINPOOL_LOG_LEVEL\n"
        "          value: {{ .Values.log.level }}\n"
        "        {{- end }}\n"
        '        {{- if ne .Values.metrics.auth "none" }}\n'
        "        - name: WINPOOL_METRICS_AUTH\n"
        "          value: {{ .Values.metrics.auth }}\n"
        "        {{- end }}\n"
        "        {{- if .Values.metrics.tlsSecretName }}\n"
        "        - name: WINPOOL_TLS_CERT_FILE\n"
        "          value: /etc/winpool/tls/tls.crt\n"
        "        - name: WINPOOL_TLS_KEY_FILE\n"
        "          value: /etc/winpool/tls/tls.key\n"
        "        {{- end }}\n"
        "        {{- if .Values.memory.enabled }}\n"
        "        {{- if .Values.memory.kubeletInsecureTLS }}\n"
        "        - name: WINPOOL_KUBELET_INSECURE_TLS\n"
        '          value: "true"\n'
        "        {{- else if .Values.memory.kubeletCAFile }}\n"
        "        - name: WINPOOL_KUBELET_CA_FILE\n"
        "          value: {{ .Values.memory.kubeletCAFile | quote }}\n"
        "        {{- end }}\n"
        "        {{- if .Values.memory.dataSourcesSecretName }}\n"
        "        - name: WINPOOL_DATA_SOURCES_FILE\n"
        "          value: /etc/winpool/data-sources/data-sources.yaml\n"
        "        {{- end }}\n"
        "        {{- end }}\n" + _passed_on(".Values.extraEnv", indent=8),
    ),
    Edit(
        "          requests:\n"
        "            # What it gets of a busy node decides whether it renews its Lease in time.\n"
        "            cpu: 100m\n"
        "            memory: 160Mi\n"
        "          limits:\n"
        "            # Four times as much as measured: a page of a list may have 32 MiB. No limit of CPU: "
        "a process that is\n"
        "            # throttled renews its Lease late, and the Lease moves for no reason.\n"
        "            memory: 512Mi\n",
        "          {{- toYaml .Values.resources | nindent 10 }}\n",
    ),
    _after(
        "          mountPath: /var/run/secrets/kubernetes.io/serviceaccount\n          readOnly: true\n",
        "        {{- if .Values.metrics.tlsSecretName }}\n"
        "        - name: tls\n"
        "          mountPath: /etc/winpool/tls\n"
        "          readOnly: true\n"
        "        {{- end }}\n"
        "        {{- if and .Values.memory.enabled .Values.memory.dataSourcesSecretName }}\n"
        "        - name: data-sources\n"
        "          mountPath: /etc/winpool/data-sources\n"
        "          readOnly: true\n"
        "        {{- end }}\n",
    ),
    _after(
        "      volumes:\n",
        "      {{- with .Values.metrics.tlsSecretName }}\n"
        "      - name: tls\n"
        "        secret:\n"
        "          secretName: {{ . | quote }}\n"
        "          defaultMode: 0440\n"
        "      {{- end }}\n"
        "      {{- if and .Values.memory.enabled .Values.memory.dataSourcesSecretName }}\n"
        "      - name: data-sources\n"
        "        secret:\n"
        "          secretName: {{ .Values.memory.dataSourcesSecretName | quote }}\n"
        "          defaultMode: 0440\n"
        "      {{- end }}\n",
    ),
)

_NETWORK_POLICY: Final = (
    Edit(
        "  # Metrics: pods of the namespaces that have the label metrics=enabled, such as the one of "
        "Prometheus.\n"
        "  - from:\n"
        "    - namespaceSelector:\n"
        "        matchLabels:\n"
        "          metrics: enabled\n"
        "    ports:\n"
        "    - port: metrics\n"
        "      protocol: TCP\n",
        "  {{- with .Values.networkPolicy.metricsFrom }}\n"
        "  - from:\n"
        "    {{- toYaml . | nindent 4 }}\n"
        "    ports:\n"
        "    - port: metrics\n"
        "      protocol: TCP\n"
        "  {{- end }}\n",
    ),
    Edit(
        "Where yours is neither (kubectl get endpointslices -n default),\n"
        "  # add it in an overlay, and add its address as an ipBlock if you want to permit no other.\n"
        "  - ports:\n"
        "    - port: 443\n"
        "      protocol: TCP\n"
        "    - port: 6443\n"
        "      protocol: TCP\n",
        "Where yours is neither (kubectl get endpointslices -n default),\n"
        "  # set networkPolicy.apiServerPorts.\n"
        "  - ports:\n"
        "    {{- range .Values.networkPolicy.apiServerPorts }}\n"
        "    - port: {{ . }}\n"
        "      protocol: TCP\n"
        "    {{- end }}\n",
    ),
    _after(
        "    - port: 5353\n      protocol: UDP\n    - port: 5353\n      protocol: TCP\n",
        _passed_on(".Values.networkPolicy.extraEgress", indent=2),
    ),
)

EDITS: Final = {
    "deployment.yaml": _DEPLOYMENT,
    "fence.yaml": (
        _after(
            "kind: ConfigMap\n"
            "metadata:\n"
            "  name: winpool-fence\n"
            "  namespace: winpool-system\n"
            "  labels:\n"
            "    app.kubernetes.io/name: winpool\n",
            "{{- if not .Values.fence.allowNoExecute }}\ndata:\n  allowNoExecute: 'false'\n{{- end }}\n",
        ),
    ),
    "kubelet-egress.yaml": (
        Edit(
            "Where yours listen on another port (status.daemonEndpoints of a node), add it, and\n"
            "# add the addresses of your nodes as an ipBlock if you want to permit no other.\n",
            "Where yours listen on another port\n"
            "# (status.daemonEndpoints of a node), permit it with networkPolicy.extraEgress.\n",
        ),
    ),
    "networkpolicy.yaml": _NETWORK_POLICY,
    "podmonitor.yaml": (
        _LABELS,
        _after(
            "  - port: metrics\n    path: /metrics\n",
            "    {{- if .Values.metrics.tlsSecretName }}\n"
            "    scheme: https\n"
            "    {{- end }}\n" + _passed_on(".Values.monitoring.endpoint", indent=4),
        ),
    ),
    "prometheusrule.yaml": (
        _LABELS,
        Edit(
            f"runbook_url: {Addresses.read().runbooks()}/",
            "runbook_url: {{ $.Values.monitoring.runbooks }}/",
            count=sum(len(group["rules"]) for group in Source.read().groups),
        ),
    ),
    "resourcequota.yaml": (
        Edit('    pods: "6"\n', "    pods: {{ max 6 (mul 2 (add .Values.replicas 1)) | quote }}\n"),
        Edit(
            "      values: [system-cluster-critical]\n",
            "      values: [{{ .Values.priorityClassName | quote }}]\n",
        ),
    ),
    "windowsnodepools.winpool.dev.yaml": (
        Edit(
            "metadata:\n  name: windowsnodepools.winpool.dev\n",
            "metadata:\n"
            "  name: windowsnodepools.winpool.dev\n"
            "  # helm uninstall must not delete it, because that deletes all pools.\n"
            "  annotations:\n"
            "    helm.sh/resource-policy: keep\n",
        ),
    ),
}
"""By the name of the manifest; a manifest that is not here has no values."""
