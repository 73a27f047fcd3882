"""The label of a judge: its name, the model it asks in place of its own, and its mark."""

THROUGH = "/"
"""Stands in a judge's label before the model it asked in place of its own: choice/beta."""
