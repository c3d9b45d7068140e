"""Where everything of a map picture goes, in pixels: points, glow, topic names, paper names, colours."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import ndimage

from core.topics.topic_map import TopicMap

HUES = ("#0072B2", "#B8860B", "#00805D", "#A8558A", "#C0561A", "#3D8FBF", "#7A7A2E")
HUES_DARK = ("#56B4E9", "#F0B429", "#2FC49A", "#E3A1C6", "#F08A3C", "#8CCBF2", "#C9C96A")
GREY, GREY_DARK = "#6B7076", "#9AA0A6"
MIXED_HUE = -1

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


@dataclass(frozen=True)
class Canvas:
    """Size of a picture in pixels; x grows to the right, y downwards."""

    width: int = 830
    height: int = 640
    margin_x: float = 0.10
    margin_y: float = 0.07


@dataclass(frozen=True)
class Name:
    """A text to draw: its lines, its middle, its box, and the index of its paper or topic."""

    lines: tuple[str, ...]
    x: float
    y: float
    box: Box
    index: int

    @property
    def text(self) -> str:
        """The text in one line."""
        return " ".join(self.lines)


@dataclass(frozen=True)
class Picture:
    """All positions of a map picture.

    points: (n, 2) pixels. hue_of_topic: index into HUES, or MIXED_HUE. topic_names, paper_names: what found
    room; a paper without a name is named on hover.
    """

    canvas: Canvas
    points: np.ndarray
    hue_of_topic: tuple[int, ...]
    topic_names: tuple[Name, ...]
    paper_names: tuple[Name, ...]


@dataclass
class _Taken:
    """Boxes and lines that names must keep clear of."""

    canvas: Canvas
    boxes: list[Box] = field(default_factory=list)
    lines: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    _array: np.ndarray = field(default_factory=lambda: np.empty((0, 4)))

    def overlap(self, box: Box) -> float:
        """Area (px²) that the box shares with what is taken, and of what leaves the canvas."""
        width, height = self.canvas.width, self.canvas.height
        inside = max(0.0, min(box[2], width) - max(box[0], 0)) * max(0.0, min(box[3], height) - max(box[1], 0))
        area = (box[2] - box[0]) * (box[3] - box[1]) - inside
        if self.boxes:
            if len(self._array) != len(self.boxes):
                self._array = np.array(self.boxes)
            others = self._array
            across = np.minimum(others[:, 2], box[2]) - np.maximum(others[:, 0], box[0])
            down = np.minimum(others[:, 3], box[3]) - np.maximum(others[:, 1], box[1])
            area += float((np.clip(across, 0, None) * np.clip(down, 0, None)).sum())
        return area

    def free(self, box: Box) -> bool:
        """True if the box lies on the canvas and touches nothing."""
        return self.overlap(box) <= 1e-6 and not any(_crosses(box, a, b) for a, b in self.lines)


def draw(
    topic_map: TopicMap,
    canvas: Canvas | None = None,
    names: Sequence[str] | None = None,
    first: Sequence[int] = (),
    chosen: int | None = None,
    linked: Sequence[int] = (),
) -> Picture:
    """Places every part of the picture; pure, so that the same input gives the same picture.

    names: short names (n,) of the papers, "" for one that is not to be named; none if None.
    first: indices of papers whose names come before all others (those that run).
    chosen, linked: index of the chosen paper and of those that lines are drawn to from it.
    """
    canvas = canvas or Canvas()
    points = to_pixels(topic_map.xy, canvas)
    hues = give_hues(topic_map, to_pixels(topic_map.xy, Canvas()))  # the same at every size
    taken = _Taken(canvas, [(x - 8, y - 8, x + 8, y + 8) for x, y in points.tolist()])
    if chosen is not None:
        taken.lines = [(points[chosen], points[index]) for index in linked]
    texts = list(names) if names is not None else [""] * len(points)
    rank = {index: place for place, index in enumerate(first)}
    early = sorted((i for i in rank if texts[i]), key=lambda i: (i != chosen, rank[i]))
    late = sorted(
        (i for i, text in enumerate(texts) if text and i not in rank),
        key=lambda i: (i != chosen, len(texts[i])),
    )
    placed = _name_papers(taken, points, texts, early, chosen)
    topics = tuple(_name_topics(taken, topic_map, points))
    placed += _name_papers(taken, points, texts, late, chosen)
    return Picture(canvas, points, hues, topics, tuple(placed))


def to_pixels(xy: np.ndarray, canvas: Canvas) -> np.ndarray:
    """Places (n, 2) of a map as pixels, stretched to the canvas within its margins; y points down."""
    if not len(xy):
        return np.zeros((0, 2))
    low, span = xy.min(axis=0), np.ptp(xy, axis=0)
    unit = np.where(span > 0, (xy - low) / np.where(span > 0, span, 1.0), 0.5)
    room = np.array([canvas.width * (1 - 2 * canvas.margin_x), canvas.height * (1 - 2 * canvas.margin_y)])
    corner = np.array([canvas.width * canvas.margin_x, canvas.height * canvas.margin_y])
    return corner + np.column_stack([unit[:, 0], 1.0 - unit[:, 1]]) * room


def give_hues(topic_map: TopicMap, points: np.ndarray) -> tuple[int, ...]:
    """Hue number of each topic, so that topics near each other look least alike; mixed ones get none.

    Greatest sum of colour distance / map distance: over all orders for up to 7 topics, greedy beyond,
    where a hue comes back only when all are given out.
    """
    named = [number for number, topic in enumerate(topic_map.topics) if not topic.mixed]
    hues = [MIXED_HUE] * len(topic_map.topics)
    if not named:
        return tuple(hues)
    middles = np.array([np.median(points[list(topic_map.topics[t].members)], axis=0) for t in named])
    apart = np.linalg.norm(middles[:, None] - middles[None], axis=2)
    nearness = np.triu(1.0 / np.maximum(apart, 1.0), 1)
    colours = _colour_distances()
    given = _best_order(nearness, colours) if len(named) <= len(HUES) else _greedy_order(nearness, colours)
    for number, hue in zip(named, given, strict=True):
        hues[number] = hue
    return tuple(hues)


def colours_of(topic_map: TopicMap, hues: Sequence[int], dark: bool = False) -> list[str]:
    """Colour (n,) of each paper as #RRGGBB: its topic's hue, grey in a mixed topic."""
    return [hue_colour(hues[number], dark) for number in topic_map.topic_of.tolist()]


def hue_colour(hue: int, dark: bool = False) -> str:
    """#RRGGBB of a hue number, for a light or dark ground."""
    if hue == MIXED_HUE:
        return GREY_DARK if dark else GREY
    return (HUES_DARK if dark else HUES)[hue]


def glow(
    picture: Picture, topic_of: np.ndarray, dark: bool = False, step: int = 4, sigma: float = 40.0
) -> np.ndarray:
    """Soft light around the papers of each topic: RGBA, uint8, (height / step, width / step, 4).

    A Gaussian density per topic; hues blend by density squared, mixed topics are dimmed, and the light
    ends before the edge. Dense maps are scaled by the density's 95th percentile.
    """
    height, width = -(-picture.canvas.height // step), -(-picture.canvas.width // step)
    count = len(picture.hue_of_topic)
    if not count:
        return np.zeros((height, width, 4), dtype=np.uint8)
    density = np.zeros((count, height, width))
    cells = np.clip((picture.points / step).astype(int), 0, [width - 1, height - 1])
    np.add.at(density, (np.asarray(topic_of), cells[:, 1], cells[:, 0]), 1.0)
    peak = 2 * np.pi * (sigma / step) ** 2
    density = np.stack([ndimage.gaussian_filter(layer, sigma / step, mode="constant") for layer in density]) * peak
    total = density.sum(axis=0)
    lit = total[total > 0.05]
    if len(picture.points) > 60 and lit.size:
        density /= max(1.0, float(np.percentile(lit, 95)) / 2.0)
        total = density.sum(axis=0)
    colours = np.array([_rgb(hue_colour(hue, dark)) for hue in picture.hue_of_topic], dtype=float)
    share = density**2 / np.maximum((density**2).sum(axis=0), 1e-12)
    mixed = share[[hue == MIXED_HUE for hue in picture.hue_of_topic]].sum(axis=0)
    alpha = (0.40 if dark else 0.30) * -np.expm1(-1.1 * total) * (1.0 - 0.62 * mixed)
    rows, columns = np.indices((height, width))
    edge = np.minimum.reduce([rows, columns, height - 1 - rows, width - 1 - columns]) * step / 36.0
    alpha *= np.clip(edge, 0.0, 1.0)
    picture_rgb = np.tensordot(share, colours, axes=(0, 0))
    return np.dstack([picture_rgb, alpha * 255.0]).round().clip(0, 255).astype(np.uint8)


def text_box(lines: Sequence[str], size: float, x: float, y: float, bold: bool = False) -> Box:
    """Box of centred text lines around (x, y), from the mean width of the type."""
    width = (0.54 if bold else 0.47) * size * max((len(line) for line in lines), default=0)
    height = 1.1 * size * len(lines)
    return (x - width / 2, y - height / 2, x + width / 2, y + height / 2)


def two_lines(text: str, longest: int = 16) -> tuple[str, ...]:
    """Text in one line, or broken at the space nearest its middle into two if it is longer."""
    spaces = [index for index, sign in enumerate(text) if sign == " "]
    if len(text) <= longest or not spaces:
        return (text,)
    cut = min(spaces, key=lambda index: abs(index - len(text) / 2))
    return (text[:cut], text[cut + 1 :])


def _name_papers(
    taken: _Taken, points: np.ndarray, texts: Sequence[str], order: Sequence[int], chosen: int | None
) -> list[Name]:
    """Names for the papers in this order, each at its first free spot; those without one are left out."""
    names = []
    for index in order:
        gap = 16.0 if index == chosen else 10.0
        for dx, dy in _spots(texts[index], gap):
            x, y = points[index, 0] + dx, points[index, 1] + dy
            box = text_box([texts[index]], 13, x, y)
            if taken.free(box):
                taken.boxes.append(box)
                names.append(Name((texts[index],), x, y, box, index))
                break
    return names


def _spots(text: str, gap: float) -> list[tuple[float, float]]:
    """Offsets of a name's middle: right, left, below, above, four diagonals, five farther ones."""
    half, line = 0.47 * 13 * len(text) / 2, 0.55 * 13
    side, down = half + gap, line + gap
    near = [(side, 0.0), (-side, 0.0), (0.0, down), (0.0, -down)]
    diagonal = [(side, down), (-side, down), (side, -down), (-side, -down)]
    far = [(side + gap, 0.0), (-side - gap, 0.0), (0.0, down + gap), (0.0, -down - gap), (half, down + gap)]
    return near + diagonal + far


def _name_topics(taken: _Taken, topic_map: TopicMap, points: np.ndarray, size: float = 18.0) -> list[Name]:
    """Names of the named topics near the median of their papers: least overlap first, then nearness."""
    names: list[Name] = []
    turns = np.arange(160)
    spiral = np.column_stack([np.cos(turns * 2.4), np.sin(turns * 2.4) * 0.75]) * (np.sqrt(turns) * 9.0)[:, None]
    for number, topic in enumerate(topic_map.topics):
        if topic.mixed:
            continue
        own = points[list(topic.members)]
        middle = np.median(own, axis=0)
        lines = two_lines(topic.label)
        best: tuple[float, Name] | None = None
        left, top, right, bottom = text_box(lines, size, 0.0, 0.0, bold=True)
        low = np.array([-left, -top])
        high = np.maximum(low, [taken.canvas.width - right, taken.canvas.height - bottom])
        for x, y in np.clip(middle + spiral, low, high).tolist():
            box = text_box(lines, size, x, y, bold=True)
            spot = np.array([x, y])
            overlap = taken.overlap(box)
            cost = 3.0 * overlap + 2.0 * float(np.linalg.norm(own - spot, axis=1).min())
            cost += float(np.linalg.norm(middle - spot))
            if best is None or cost < best[0]:
                best = (cost, Name(lines, x, y, box, number))
        if best is not None and not _on_a_name(best[1], names):
            taken.boxes.append(best[1].box)
            names.append(best[1])
    return names


def _on_a_name(name: Name, others: Sequence[Name]) -> bool:
    a = name.box
    return any(a[0] < b.box[2] and b.box[0] < a[2] and a[1] < b.box[3] and b.box[1] < a[3] for b in others)


def _crosses(box: Box, start: np.ndarray, end: np.ndarray) -> bool:
    """True if the line from start to end touches the box."""
    steps = np.linspace(0.0, 1.0, 60)[:, None]
    way = start + (end - start) * steps
    return bool(((way[:, 0] > box[0]) & (way[:, 0] < box[2]) & (way[:, 1] > box[1]) & (way[:, 1] < box[3])).any())


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _colour_distances() -> np.ndarray:
    """Distances (7, 7) of the hues in RGB, scaled to at most 1."""
    colours = np.array([_rgb(hue) for hue in HUES], dtype=float)
    distances = np.linalg.norm(colours[:, None] - colours[None], axis=2)
    return distances / distances.max()


def _best_order(nearness: np.ndarray, colours: np.ndarray) -> tuple[int, ...]:
    orders = np.array(list(itertools.permutations(range(len(colours)), len(nearness))))
    value = np.zeros(len(orders))
    for a, b in itertools.combinations(range(len(nearness)), 2):
        value += nearness[a, b] * colours[orders[:, a], orders[:, b]]
    return tuple(orders[int(np.argmax(value))].tolist())


def _greedy_order(nearness: np.ndarray, colours: np.ndarray) -> tuple[int, ...]:
    both = nearness + nearness.T
    given = np.full(len(both), -1)
    for number in np.argsort(-both.sum(axis=1), kind="stable").tolist():
        done = np.flatnonzero(given >= 0)
        used = np.bincount(given[done], minlength=len(colours))
        unlike = (both[number, done][:, None] * (colours[given[done]] - 1.0)).sum(axis=0)
        given[number] = int(np.argmax(np.where(used == used.min(), unlike, -np.inf)))
    return tuple(given.tolist())
