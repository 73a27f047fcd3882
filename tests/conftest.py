"""Puts this folder on the import path: tests in every folder use stub_server."""
