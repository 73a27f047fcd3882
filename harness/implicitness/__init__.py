"""The ImpScore metric: texts to implicitness, pairs of texts to pragmatic distance.

Read `formula.py` first, then `scorer.py`, which applies a head to texts; `open.py` opens a scorer
by its name, `train.py` makes heads. Nothing here knows a model that answers, a judge or a run.
"""
