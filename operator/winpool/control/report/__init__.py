"""What a pass tells: the status of its pool, and events."""
