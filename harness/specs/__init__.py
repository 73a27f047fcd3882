"""Specs: what a task, a model, a judge and a data source may say in YAML, one module each."""
