"""What others ask of the running operator: /metrics for Prometheus, /healthz and /readyz for the kubelet."""
