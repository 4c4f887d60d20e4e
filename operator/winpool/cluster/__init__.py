"""The only code that talks to the API server.

Nothing else in winpool opens a connection to it, builds a request or reads an answer.
``credentials`` says who we are, ``transport`` has one pool of connections, and ``errors``
the types of failures. On top of these are ``reflector`` (which nodes exist), ``writer``
(every change to nodes and pools) and ``events`` (Events for people).
``access`` turns a refusal into the RBAC rule that is missing.

The package knows neither Kopf nor Prometheus: its counters are plain objects that others read.
"""
