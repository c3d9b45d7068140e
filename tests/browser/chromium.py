"""Finds a Chromium or Chrome for the browser tests, else installs one, and says which."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MAC = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def find() -> str | None:
    """The path of a browser on this machine (CHROMIUM names one explicitly), or None."""
    named = os.environ.get("CHROMIUM")
    if named:
        return named
    found = next((path for path in map(shutil.which, NAMES) if path), None)
    return found or (str(MAC) if MAC.exists() else _playwrights())


def _playwrights() -> str | None:
    """The path of the browser that Playwright downloaded earlier, if it did."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as p:
        path = p.chromium.executable_path
    return path if Path(path).exists() else None


def install() -> None:
    """Install a browser: the system's package manager as root, else Playwright's own download."""
    if shutil.which("apt-get") and os.geteuid() == 0:
        subprocess.run(["apt-get", "update", "-qq"], check=True)
        subprocess.run(["apt-get", "install", "-y", "-qq", "chromium"], check=True, stdout=subprocess.DEVNULL)
    else:
        subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=True)


def main() -> int:
    path = find()
    if path is None:
        print("No Chromium or Chrome here: installing one.")
        install()
        path = find()
    print(f"Browser for the tests: {path}" if path else "No browser could be installed; set CHROMIUM=/path.")
    return 0 if path else 1


if __name__ == "__main__":
    sys.exit(main())
