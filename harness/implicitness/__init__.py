"""The implicitness metric ImpScore: how far what a sentence means lies from what it says."""
