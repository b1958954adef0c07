"""Takes pictures of pages with a Chromium, in an environment that has playwright.

`python camera.py PAGES`: JSON with the console's address, a folder, and a name, a path, a width and a colour
scheme for each. Every error that a page logs is printed, and ends it with code 1.
"""

import json
import os
import sys

from playwright.sync_api import sync_playwright

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
_SETTLES_MS = 3000


def main(given: dict[str, object]) -> int:
    problems: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for name, path, width, scheme in given["pages"]:  # type: ignore[attr-defined]  # JSON
            page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
            page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
            page.on("pageerror", lambda error: problems.append(str(error)))
            page.goto(f"{given['url']}{path}", wait_until="load")
            page.wait_for_timeout(_SETTLES_MS)
            page.screenshot(path=f"{given['folder']}/{name}.png")
            page.close()
        browser.close()
    print("\n".join(problems), file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
