"""The console for people, in the browser: pages rendered here, parts of them replaced by htmx.

`app.py` has the routes. `frame/` is what all pages share: sessions, security headers, assets, filters of
templates, errors as pages. `pages/` has a module or a package for each page: its routes, and the data of its
view. `templates/<page>.html` extends `frame.html`; pieces that several use are in `templates/parts/`.
`static/` is served as it is; files of others are in `static/vendor/`, listed in `vendored.json`.

docs/change/console.md says how a page is added.
"""
