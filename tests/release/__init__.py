"""What a release publishes."""
