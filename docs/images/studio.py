"""Make the pictures of the studio in docs/studio.md: python docs/images/studio.py

Copies the published runs to out/studio-pictures, trains one more beside them for a minute, and opens the studio. Needs
Playwright and Chromium, as the tests of the studio do.
"""

import os
import shutil
import threading
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

import envgen
from envgen.studio.app import Studio

IMAGES = Path(__file__).parent
PUBLISHED = IMAGES.parent / "results" / "envgen-crafter-symbols" / "runs"
OUT = Path("out/studio-pictures")
LEVEL = '{"biome": "mountain", "diamonds": "common", "near": {"cave": true}, "inventory": {"iron_pickaxe": 1}}'


def save_screenshot(browser: Browser, url: str, scheme: str, selector: str, image_file: Path) -> None:
    """A picture of a page, once there is an element that `selector` matches."""
    context = browser.new_context(viewport={"width": 1280, "height": 860}, color_scheme=scheme)
    page = context.new_page()
    page.goto(url)
    page.wait_for_selector(selector, timeout=600_000)
    page.wait_for_timeout(4000)  # pictures of levels are drawn when they come into view
    page.screenshot(path=image_file)
    context.close()
    Image.open(image_file).convert("RGB").quantize(128).save(image_file, optimize=True)


def main() -> None:
    shutil.rmtree(OUT / "runs", ignore_errors=True)
    shutil.copytree(PUBLISHED, OUT / "runs")
    options = {"preset": "quick", "seed": 7, "folder": OUT / "runs" / "expert-7", "verbose": False}
    threading.Thread(target=envgen.train, args=("crafter", "expert"), kwargs=options, daemon=True).start()
    server = Studio(OUT / "runs").server()
    threading.Thread(target=server.serve, daemon=True).start()
    has_curve = "article.live-run figure.chart canvas"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        save_screenshot(browser, server.url, "light", has_curve, IMAGES / "studio-runs.png")
        level = f"{server.url}levels?world=crafter&level={LEVEL}"
        save_screenshot(browser, level, "dark", "#stats .chips", IMAGES / "studio-levels.png")
        browser.close()
    os._exit(0)  # without waiting for the run


if __name__ == "__main__":
    main()
