"""Figures of live pages: one query and one subscription serve all browsers."""
