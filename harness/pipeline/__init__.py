"""To be said: one noun, what it turns into what, where to begin."""
