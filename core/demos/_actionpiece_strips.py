"""Strips of tiles that show how ActionPiece cuts histories of two actions into tokens."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from core.demos._actionpiece_tokens import Chain, Vocabulary, split
from core.demos._actionpiece_world import VALUES, Data
from core.lab import charts, thumbnails

SHOWN = 4


@dataclass(frozen=True)
class Strip:
    """A history cut into tokens: names of the features in each tile, and how many are of the earlier action."""

    tiles: tuple[tuple[str, ...], ...]
    earlier: tuple[int, ...]

    @property
    def crossing(self) -> tuple[bool, ...]:
        """Which tiles are tokens of both actions."""
        return tuple(0 < e < len(t) for t, e in zip(self.tiles, self.earlier, strict=True))

    @property
    def shape(self) -> tuple[int, ...]:
        """The features in each tile."""
        return tuple(len(t) for t in self.tiles)


def name_of(token: int) -> str:
    """A single feature's name: A1 … A8, B1 … B8, C1 … C6."""
    ends = np.cumsum(VALUES)
    j = int(np.searchsorted(ends, token, side="right"))
    return f"{'ABC'[j]}{token - ends[j] + VALUES[j] + 1}"


def strip_of(pair: tuple[int, int], chain: Chain, features: np.ndarray, v: Vocabulary) -> Strip:
    """A segmented history with the features of each token, those of the earlier action first."""
    parts = v.features()
    left, both, right = split(chain, [len(p) for p in parts], len(VALUES))
    free = Counter(features[pair[0]].tolist()) - Counter(f for t in left for f in parts[t])
    tiles = [(tuple(parts[t]), len(parts[t])) for t in left]
    for t in both:
        own = tuple(free.elements())
        tiles.append((own + tuple((Counter(parts[t]) - free).elements()), len(own)))
    tiles += [(tuple(parts[t]), 0) for t in right]
    return Strip(tuple(tuple(name_of(f) for f in tile) for tile, _ in tiles), tuple(n for _, n in tiles))


def strips(data: Data, v: Vocabulary, chains: dict[tuple[int, int], Chain]) -> tuple[Strip, ...]:
    """Histories that end in the item that is cut in the most different shapes; new shapes first.

    A shape is the sizes of the tokens in a strip; strips with a token of both actions count.
    """
    by_item: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for a, b in sorted(set(map(tuple, data.histories.tolist()))):
        by_item[b].append((a, b))
    found = {b: [strip_of(p, chains[p], data.features, v) for p in pairs] for b, pairs in by_item.items()}
    best = max(found.values(), key=lambda some: (len({s.shape for s in some if any(s.crossing)}), len(some)))
    best.sort(key=lambda s: (any(s.crossing), len(s.tiles)), reverse=True)
    first = {s.shape: s for s in reversed(best)}
    new = [s for s in best if first[s.shape] is s]
    return tuple((new + [s for s in best if first[s.shape] is not s])[:SHOWN])


def draw(strips: tuple[Strip, ...]) -> go.Figure:
    """The strips below each other, the features of each token in its tile, tokens of both actions in blue."""
    m = len(VALUES)
    fig = charts.blank(height=350)
    for row, strip in enumerate(strips):
        start = 0.0
        for tile, crossing in zip(strip.tiles, strip.crossing, strict=True):
            colour = charts.MARK["method" if crossing else "oracle"]
            fig.add_bar(
                base=[start + 0.03],
                x=[len(tile) - 0.06],
                y=[row],
                orientation="h",
                width=0.62,
                marker={
                    "color": charts.tint(colour, 0.3 if crossing else 0.12),
                    "line": {"color": colour, "width": 2.4 if crossing else 1},
                },
                hovertemplate=f"one token: {' '.join(tile)}<extra></extra>",
            )
            for k, feature in enumerate(tile):
                fig.add_annotation(
                    x=start + k + 0.5,
                    y=row,
                    text=feature,
                    showarrow=False,
                    font={"size": 15, "color": charts.INK},
                )
            start += len(tile)
    fig.add_vline(x=m, line={"color": charts.MARK["oracle"], "width": 1.6, "dash": "dot"})
    for x, text in ((m / 2, "the action before"), (1.5 * m, "the item")):
        fig.add_annotation(
            x=x, y=1, yref="paper", yanchor="bottom", text=text, showarrow=False, font={"color": charts.SOFT}
        )
    fig.update_xaxes(range=[0, 2 * m], visible=False)
    fig.update_yaxes(range=[SHOWN - 0.5, -0.5], visible=False)
    return fig.update_layout(barmode="overlay")


def tiles(strips: tuple[Strip, ...]) -> str:
    """The strips without words, as a thumbnail."""
    m = len(VALUES)
    wide = (thumbnails.WIDTH - 2 * thumbnails.PAD) / (2 * m)
    high = (thumbnails.HEIGHT - 2 * thumbnails.PAD) / SHOWN
    body = ""
    for row, strip in enumerate(strips):
        start = 0
        for tile, crossing in zip(strip.tiles, strip.crossing, strict=True):
            x, y = thumbnails.PAD + start * wide + 1.5, thumbnails.PAD + row * high + 3
            look = 'class="f-method"' if crossing else 'class="f-oracle" opacity=".35"'
            body += (
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{len(tile) * wide - 3:.1f}" height="{high - 6:.1f}" '
                f'rx="3" {look}/>'
            )
            start += len(tile)
    return thumbnails.svg(body)
