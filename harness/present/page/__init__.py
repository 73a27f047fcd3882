"""Stored runs to one page: its data as compressed JSON, in a file that needs no server.

`page` is the way in, `items` makes the answers with all that belongs to them, `tables` the tables
and sentences. `assets` holds what a browser reads; it shows every text as text.
"""
