"""Records as columns: what scores need of a record, as arrays, in about a hundred bytes."""
