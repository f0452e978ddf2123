"""What waits while no worker does."""
