"""Training pairs and a recipe to a head of the ImpScore metric.

Read `train.py` first; `splits.py`, `examples.py` and `losses.py` are its steps. `lint.py` checks
the pairs, `ablation.py` compares forms and settings. Nothing here reads or writes files.
"""
