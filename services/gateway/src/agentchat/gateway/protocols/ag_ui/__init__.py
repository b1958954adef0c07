"""/ag-ui/v1: agents for clients of AG-UI, versions 1.0 and 0.0.59 (docs/integrate/ag-ui.md, decision 60)."""
