"""What a run must do: the documents that cross between worker and driver, and the decisions. Pure Python."""
