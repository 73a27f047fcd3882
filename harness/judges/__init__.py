"""Judges: responses to verdicts, one module for each way of judging.

A judge may ask its own model (`ask`); it reads cases (`read`) and gives each a value or a reason.
Read `core.Judge` first, then `custom`, which all judges and those of other people build on. A judge
knows no task, no run folder and no other judge.
"""
