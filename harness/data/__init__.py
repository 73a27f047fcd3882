"""Data sets to samples: files are downloaded, read, and turned into samples that tasks can ask.

Read `readers/samples_jsonl.py` first, then `derive.py`; people's ratings are in `ratings.py`.
Nothing here knows a model, a prompt template or a run.
"""
