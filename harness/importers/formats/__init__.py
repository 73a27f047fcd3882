"""Files of one format to answers: `recognises(text)`, then `read(path, text, lookup, spec)`."""
