"""OpenAI-compatible servers: requests become calls, and the bodies of replies become responses.

Read `model` first. `chat` and `responses` word requests and read replies, `choices` scores choices,
`errors` reads the client library's exceptions; `batches` and `moderation` are further endpoints.
Nothing here retries, stores or knows a task.
"""
