"""OpenAI-compatible servers: requests become calls, and the bodies of replies become responses.

Read `model` first. `bodies` words requests and reads replies, `choices` scores choices.
"""
