"""Small pictures without words for the gallery: SVG text of 300 × 128, readable on light and dark grounds."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence

import numpy as np
from PIL import Image

from core.lab.palette import DARK, MARK

WIDTH, HEIGHT, PAD = 300, 128, 12


def svg(body: str) -> str:
    """Wrap SVG elements; the palette's colours, given as classes by `paint`, follow the page's theme."""
    light = "".join(f".f-{r}{{fill:{c}}}.s-{r}{{stroke:{c}}}" for r, c in MARK.items())
    dark = "".join(f".f-{r}{{fill:{DARK[c]}}}.s-{r}{{stroke:{DARK[c]}}}" for r, c in MARK.items())
    style = f"<style>{light}@media (prefers-color-scheme:dark){{{dark}}}</style>"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}">{style}{body}</svg>'
    )


def _scaled(v: np.ndarray, low: float, high: float, a: float, b: float) -> np.ndarray:
    return a + (np.asarray(v, dtype=float) - low) / ((high - low) or 1.0) * (b - a)


def lines(
    curves: Mapping[str, tuple[np.ndarray, np.ndarray]],
    of: Mapping[str, str],
    *,
    log_x: bool = False,
    log_y: bool = False,
) -> str:
    """Curves name -> (x, y); the method last and thicker. `of` gives each name's role."""
    curves = {
        n: (np.log10(x) if log_x else np.asarray(x, float), np.log10(np.maximum(y, 1e-300)) if log_y else y)
        for n, (x, y) in curves.items()
    }
    xs = np.concatenate([np.asarray(x, float) for x, _ in curves.values()])
    ys = np.concatenate([np.asarray(y, float) for _, y in curves.values()])
    ys = ys[np.isfinite(ys)]
    body = ""
    for name in sorted(curves, key=lambda n: of[n] == "method"):
        x, y = curves[name]
        keep = np.isfinite(np.asarray(y, float))
        px = _scaled(np.asarray(x)[keep], xs.min(), xs.max(), PAD, WIDTH - PAD)
        py = _scaled(np.asarray(y)[keep], ys.min(), ys.max(), HEIGHT - PAD, PAD)
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(px, py, strict=True))
        wide = 4 if of[name] == "method" else 2
        body += (
            f'<polyline class="s-{of[name]}" fill="none" stroke-width="{wide}" stroke-linejoin="round" '
            f'points="{points}"/>'
        )
    return svg(body)


def dots(rows: Mapping[str, tuple[float, float, float]], of: Mapping[str, str]) -> str:
    """One row a method: (value, low, high) as a dot with its interval, the method first and larger."""
    names = sorted(rows, key=lambda n: of[n] != "method")
    flat = np.array([v for r in rows.values() for v in r], dtype=float)
    body = ""
    for i, name in enumerate(names):
        y = PAD + (HEIGHT - 2 * PAD) * (i + 0.5) / len(names)
        value, low, high = _scaled(np.array(rows[name]), flat.min(), flat.max(), 30, WIDTH - 30)
        big = of[name] == "method"
        body += f'<line x1="{PAD}" x2="{WIDTH - PAD}" y1="{y:.1f}" y2="{y:.1f}" stroke="#7f7f7f" opacity=".25"/>'
        body += (
            f'<line class="s-{of[name]}" x1="{low:.1f}" x2="{high:.1f}" y1="{y:.1f}" y2="{y:.1f}" '
            f'stroke-width="4" stroke-linecap="round"/>'
            f'<circle class="f-{of[name]}" cx="{value:.1f}" cy="{y:.1f}" r="{7 if big else 5}"/>'
        )
    return svg(body)


def points(groups: Sequence[tuple[np.ndarray, str]], *, radius: float = 3.5, square: bool = True) -> str:
    """Point clouds ((n, 2), role) on common axes; `square` keeps the two scales equal."""
    every = np.vstack([p for p, _ in groups])
    low, high = every.min(0), every.max(0)
    if square:
        span = max((high - low)[0] * (HEIGHT - 2 * PAD) / (WIDTH - 2 * PAD), (high - low)[1]) or 1.0
        middle = (low + high) / 2
        half = np.array([span * (WIDTH - 2 * PAD) / (HEIGHT - 2 * PAD), span]) / 2
        low, high = middle - half, middle + half
    body = ""
    for p, role in groups:
        x = _scaled(p[:, 0], low[0], high[0], PAD, WIDTH - PAD)
        y = _scaled(p[:, 1], low[1], high[1], HEIGHT - PAD, PAD)
        body += "".join(
            f'<circle class="f-{role}" cx="{a:.1f}" cy="{b:.1f}" r="{radius}"/>' for a, b in zip(x, y, strict=True)
        )
    return svg(body)


def pictures(rows: Sequence[Sequence[np.ndarray]], *, gap: int = 6) -> str:
    """Rows of pictures, each (h, w) in 0…1 or (h, w, 3) uint8 or 0…1, as crisp pixels side by side."""
    columns = max(len(r) for r in rows)
    shape = rows[0][0].shape
    ratio = shape[1] / shape[0]
    high = min(
        (HEIGHT - 2 * PAD - gap * (len(rows) - 1)) / len(rows),
        (WIDTH - 2 * PAD - gap * (columns - 1)) / columns / ratio,
    )
    wide = high * ratio
    body = ""
    for i, row in enumerate(rows):
        left = (WIDTH - len(row) * wide - gap * (len(row) - 1)) / 2
        top = (HEIGHT - len(rows) * high - gap * (len(rows) - 1)) / 2 + i * (high + gap)
        for j, image in enumerate(row):
            body += (
                f'<image x="{left + j * (wide + gap):.1f}" y="{top:.1f}" width="{wide:.1f}" '
                f'height="{high:.1f}" preserveAspectRatio="none" style="image-rendering:pixelated" '
                f'href="{png_uri(image)}"/>'
            )
    return svg(body)


def png_uri(image: np.ndarray) -> str:
    """A picture (h, w) or (h, w, 3), floats 0…1 or uint8, as a PNG data address."""
    a = np.asarray(image)
    if a.dtype != np.uint8:
        a = np.round(255 * np.clip(a, 0, 1)).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(a).save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def coloured(z: np.ndarray, scale: Sequence[Sequence], low: float, high: float) -> np.ndarray:
    """A matrix (h, w) through one of the colour scales of `charts`: uint8 (h, w, 3)."""
    stops = np.array([s[0] for s in scale], dtype=float)
    rgb = np.array([[int(s[1][i : i + 2], 16) for i in (1, 3, 5)] for s in scale], dtype=float)
    t = np.clip((np.asarray(z, dtype=float) - low) / ((high - low) or 1.0), 0, 1)
    return np.stack([np.interp(t, stops, rgb[:, c]) for c in range(3)], axis=-1).astype(np.uint8)
