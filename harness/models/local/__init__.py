"""Requests to responses through checkpoints and classifiers that run on this machine.

Read `transformers_lm.py` first; `vllm_model.py` is its counterpart for vLLM, and the classifiers
give labels instead of text. `checkpoints.py` finds versions and loads weights, `tokenization.py`
turns prompts and choices into token ids. Nothing here knows a task, a judge or the ledger.
"""
