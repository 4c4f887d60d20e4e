"""Memory samples of nodes, from their kubelets and from Prometheus, never with the operator's own token."""
