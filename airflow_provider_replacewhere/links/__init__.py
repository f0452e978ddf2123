"""Links from a task to where its run can be looked at."""
