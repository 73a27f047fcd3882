"""What `harness run` does with a plan: its cells counted, told and carried out."""
