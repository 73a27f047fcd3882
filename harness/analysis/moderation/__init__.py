"""What moderators read with rates: drift between two sets of texts, and the card of a model."""
