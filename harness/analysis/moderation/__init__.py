"""What moderators read beside rates: drift between two sets of texts, and the card of a model."""
