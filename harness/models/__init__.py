"""Back ends: requests to responses, one module a way of answering."""
