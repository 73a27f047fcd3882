"""Figures by matplotlib: a plain function each, frames in; `named` lists them by their names."""
