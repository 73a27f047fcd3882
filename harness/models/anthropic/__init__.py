"""Anthropic's API: requests become calls, and the bodies of replies become responses.

Read `model` first: the model, its requests and its errors; `replies` reads bodies, and `batches`
adds message batches. Nothing here retries, stores or knows a task.
"""
