"""Files of one data set to samples, one module for each layout; `read` is its only entry."""
