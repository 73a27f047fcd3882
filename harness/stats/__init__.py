"""Pure statistics: numbers in, numbers out; no file, no record, no randomness of its own."""
