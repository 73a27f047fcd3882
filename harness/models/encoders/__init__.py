"""Texts to vectors: begin with `encoders.py`, whose `Encoder` is the protocol of all of them."""
