"""The pages: each has its routes as `HANDLERS`, which `console.app` lists."""
