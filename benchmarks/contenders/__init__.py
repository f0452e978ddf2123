"""What else would keep the table up to date: programs that measure themselves against the window by hand."""
