"""What tests on the real control plane share: a world of one's own in a cluster that all use."""
