"""Anthropic's API: requests become calls, and the bodies of replies become responses."""
