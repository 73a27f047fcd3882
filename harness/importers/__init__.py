"""Files in which other people stored answers, one module a layout."""
