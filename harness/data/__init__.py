"""Data sets to samples: files are downloaded, read, and turned into samples that tasks can ask."""
