"""Two runs to a decision: has the second dropped, and by more than is allowed."""
