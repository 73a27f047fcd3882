"""Layouts and numbers to tables for papers; read `pivot` first. Nothing here computes a score."""
