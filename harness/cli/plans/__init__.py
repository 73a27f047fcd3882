"""What `harness run` does with a plan: its cells counted, reported and carried out."""
