"""Many runs as one: the cells of a plan, the models of a grid, the shards of a run."""
