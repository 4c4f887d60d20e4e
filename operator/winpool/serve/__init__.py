"""The HTTP endpoints of the operator: /metrics for Prometheus, /healthz and /readyz for the kubelet."""
