"""Published numbers computed anew, one module a paper or source: released files to named values."""
