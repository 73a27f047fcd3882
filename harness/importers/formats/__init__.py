"""Files of one format to answers: `recognises(text)`, then `read(path, text, lookup, spec)`.

Read `topical_chat.py` first. A format reads one file; it knows no run, no judge and no ledger.
"""
