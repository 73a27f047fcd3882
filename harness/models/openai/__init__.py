"""OpenAI-compatible servers: requests become calls, and the bodies of replies become responses.

Read `model` first. `bodies` words requests and reads replies and errors, `choices` scores choices,
`batches` asks in batches. Nothing here retries, stores or knows a task.
"""
