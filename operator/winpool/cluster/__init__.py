"""The only door to the API server.

Nothing else in winpool opens a connection to it, builds a request or reads an answer.
The way in is ``credentials`` (who we are), ``transport`` (one pool of connections, one
error vocabulary from ``errors``), and on top of it ``reflector`` (what nodes there are),
``writer`` (every change to nodes and pools) and ``events`` (what people are told).
``access`` turns a refusal into the RBAC rule that is missing.

The room knows neither Kopf nor Prometheus: it counts on plain objects that others read.
"""
