"""What a pass reports: the status of its pool, and events."""
