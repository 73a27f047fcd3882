"""Numbers to numbers: statistics with their intervals; begin with `estimate`."""
