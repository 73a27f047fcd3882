"""Models and encoders in the workers of a Ray cluster: which run where, and who gets which part."""
