"""Stored runs to one page: its data as compressed JSON, in a file that needs no server.

`page` is the way in. `records` has the words of the page's JSON, `items` makes the answers with
all that belongs to them, `tables` and `pairs` the tables, `words` the sentences. `assets` holds
what a browser reads; it shows every text as text.
"""
