"""Anthropic's API: requests become calls, and the bodies of replies become responses.

Read `model` first: bodies, errors and the model; `batches` adds message batches. Nothing here
retries, stores or knows a task.
"""
