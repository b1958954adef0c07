"""Serve agents to clients of AG-UI, versions 1.0 and 0.0.59: /ag-ui/v1.

For integrators: docs/integrate/ag-ui.md.
"""
