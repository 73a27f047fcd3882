"""Requests to responses through checkpoints on this machine: begin with `transformers_lm.py`."""
