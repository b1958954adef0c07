"""Serve the console: HTML pages for people, with parts that htmx replaces.

`app.py` has the routes. `shared/` has what all pages share: sessions, security headers, assets, template
filters, error pages. `pages/` has a module or a package for each page, with its routes and the data of its
view. `templates/<page>.html` extends `frame.html`; templates used by several pages are in `templates/parts/`.
`static/` is served unchanged; third-party files are in `static/vendor/`, listed in `vendored.json`.

docs/change/console.md describes how to add a page.
"""
