"""PURE. Nodes, pods, pools and memory as records, and the snapshot that a pass decides on."""
