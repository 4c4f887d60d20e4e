"""The memory of a simulated Windows machine: a model without a clock, a cluster or a network. See ../README.md."""
