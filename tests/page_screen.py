"""The picture of the page in its how-to: `python tests/page_screen.py STORE docs/pictures/explore.png`, with the demo's store."""

from __future__ import annotations

import sys

from served_page import Watched, launched, serving


def main() -> None:
    url, path = sys.argv[1:]
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver, serving(url) as address:
        chromium = launched(driver.chromium)
        watched = Watched(chromium.new_page(viewport={"width": 1180, "height": 760}), address)
        watched.open("/?tpot_limit=30&price=3")
        watched.page.screenshot(path=path)
        chromium.close()


if __name__ == "__main__":
    main()
