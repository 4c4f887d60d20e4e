"""What a pass does to the cluster, a lane for each kind of act."""
