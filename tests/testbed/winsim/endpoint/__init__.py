"""The kubelet endpoint of simulated Windows nodes, and the windows_exporter beside it."""
