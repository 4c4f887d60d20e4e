"""A model of a Windows machine's memory, without a clock, cluster or network. See ../README.md."""
