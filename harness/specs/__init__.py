"""Specs: what a YAML file may say, as frozen records, one module for each kind of file.

Turns a file's mapping into a checked spec, or into an error that names the nearest valid key.
Read `schema` first, then the module of a kind of file, such as `tasks` or `judges`; `plugins` finds
the classes that others add. A spec knows no folder, no model and no run.
"""
