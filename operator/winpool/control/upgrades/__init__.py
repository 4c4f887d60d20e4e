"""What this process sees of machines and of the control plane, for pools with upgrades."""
