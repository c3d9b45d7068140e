"""Takes the README's pictures from the running app: `python -m tests.browser.screenshots`."""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from tests.browser.chromium import FLAGS, find
from tests.browser.conftest import settled, start_server

FOLDER = Path(__file__).parent / "screenshots"
SHOTS = {
    "overview": ("", 1400, 900, "light"),
    "method": ("method?method=bass", 1400, 900, "light"),
    "break-it-dark": ("method?method=bass&structure=unrelated", 1400, 900, "dark"),
    "map": ("topic_map", 1400, 900, "light"),
    "claims": ("claims", 1400, 900, "light"),
    "phone": ("method?method=bass", 400, 800, "light"),
}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    process, address = start_server()
    try:
        with sync_playwright() as p:
            browser = p.chromium.launch(executable_path=find(), args=FLAGS)
            for name, (path, width, height, scheme) in SHOTS.items():
                context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]
                page = context.new_page()
                page.goto(f"{address}/{path}")
                settled(page)
                page.wait_for_timeout(1500)
                picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
                picture.save(FOLDER / f"{name}.png", optimize=True)
                print(FOLDER / f"{name}.png")
                context.close()
            browser.close()
    finally:
        process.terminate()
        process.wait(10)


if __name__ == "__main__":
    main()
