"""Texts to vectors: one unit row a text, or one a token.

Read `encoders.py` first: its `Encoder` is the protocol of all of them. It also builds an
encoder from its spec and caches rows. Nothing here compares two texts or knows a judge.
"""
