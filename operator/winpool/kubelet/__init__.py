"""Memory samples of nodes, from their kubelets and from Prometheus.

The modules here are pure, except those that open connections: ``client`` and ``wire``, ``prometheus`` and
``exchange``, and ``trust``. A kubelet never gets the operator's own token: anyone who listens at a node's
address reads what is sent there. So the token is passed in, as a function.
"""
