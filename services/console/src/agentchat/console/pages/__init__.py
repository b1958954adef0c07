"""The pages. Each lists its routes as `HANDLERS`, which `console.app` collects."""
