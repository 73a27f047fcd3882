"""Calls: requests to a model become stored responses, each paid for once.

Read `cached` first: the ledger before the model, with price and budget. `retry` makes many calls
at once; `hosted` is what all providers' models share, `endpoint` a server's address and key,
`replies` how replies are read, and `batches` asks in batches. Nothing here knows a task, a judge or
a provider's format.
"""
