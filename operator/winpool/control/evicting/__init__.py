"""What passes ask for and read about evictions: lists of pods, and the answers to requests."""
