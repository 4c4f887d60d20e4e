"""The pods of simulated nodes: started, kept Ready, stopped and removed as kubelets do."""
