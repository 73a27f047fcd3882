"""Calls: requests to a model become stored responses, each paid for once.

Read `cached` first: the ledger before the model. `retry` makes many calls at once, with `executor`
and `limiter`; `hosted` is what all providers' models share, and `batch_model` asks in batches.
Nothing here knows a task, a judge or a provider's format.
"""
