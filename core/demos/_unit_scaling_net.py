"""A one-block decoder in two parametrizations, trained by Lion, with real 8-bit casts; variants on a leading axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
from scipy.special import erf

SYMBOLS, LENGTH, HEAD, BASE = 16, 8, 8, 8
ACTIVATION = (ml_dtypes.float8_e4m3fn, 448.0)
GRADIENT = (ml_dtypes.float8_e5m2, 57344.0)
HIDDEN = ("q", "k", "v", "o", "up", "down")
Weights = dict[str, np.ndarray]
"""name -> (variants, fan in, fan out)"""


@dataclass(frozen=True)
class Setup:
    """One scheme (mu or sp) at one width; `modes` gives the arithmetic of each variant."""

    scheme: str
    width: int
    rates: tuple[float, ...]
    modes: tuple[str, ...]
    tau: float = 0.4
    activation: str = "relu"
    n_tok: float = 65536
    decay: float = 1e-4
    seed_factor: float = 1.0

    def __post_init__(self) -> None:
        if self.scheme not in ("mu", "sp"):
            raise ValueError(f"scheme cannot be {self.scheme!r}: it may be mu or sp")
        if self.width < 8 or self.width % HEAD:
            raise ValueError(f"width cannot be {self.width}: it must be a multiple of {HEAD}")
        if not 0 < self.tau < 1:
            raise ValueError(f"tau cannot be {self.tau}: it must lie between 0 and 1")
        if self.activation not in ("relu", "gelu"):
            raise ValueError(f"activation cannot be {self.activation!r}: it may be relu or gelu")
        if self.n_tok < 1:
            raise ValueError(f"n_tok cannot be {self.n_tok}: it must be at least 1")
        if min(self.rates) <= 0:
            raise ValueError("rates: a learning rate must be above 0")

    @property
    def mu(self) -> bool:
        return self.scheme == "mu"

    def alpha(self, fan_in: int) -> float:
        return fan_in**-0.5 if self.mu else 1.0

    @property
    def top(self) -> float:
        """What the gradient of the summed loss is multiplied by before it runs down."""
        return self.seed_factor * (self.width if self.mu else 1 / self.n_tok)


@dataclass
class Tally:
    """Per variant and kind: non-zero entries cast, how many became 0; maximum searches of the last step."""

    entries: dict[str, np.ndarray] = field(default_factory=dict)
    lost: dict[str, np.ndarray] = field(default_factory=dict)
    searches: np.ndarray | None = None

    def add(self, kind: str, v: int, variants: int, x: np.ndarray, y: np.ndarray) -> None:
        for store in (self.entries, self.lost):
            store.setdefault(kind, np.zeros(variants))
        self.entries[kind][v] += np.count_nonzero(x)
        self.lost[kind][v] += np.count_nonzero(x) - np.count_nonzero(y)

    def share(self, kind: str, v: int) -> float:
        total = self.entries[kind][v]
        return float(self.lost[kind][v] / total) if total else float("nan")


def quantize(x: np.ndarray, kind: tuple = ACTIVATION, scale: float = 1.0) -> np.ndarray:
    """Clip to the format's largest number, cast, cast back; `scale` multiplies before and divides after."""
    dtype, largest = kind
    if np.isnan(x).any():
        raise ValueError("cast input: there is a NaN in a tensor before its cast")
    scaled = x if scale == 1.0 else x * x.dtype.type(scale)
    back = np.clip(scaled, -largest, largest).astype(dtype).astype(x.dtype)
    return back if scale == 1.0 else back / x.dtype.type(scale)


def dynamic_scale(x: np.ndarray, largest: float) -> float:
    top = float(np.abs(x).max())
    return largest / top if top > 0 else 1.0


def cast(x: np.ndarray, s: Setup, kind: tuple, name: str, tally: Tally | None) -> np.ndarray:
    """Each variant (leading axis) in its own arithmetic: float as it is, static, or with a dynamic scale."""
    if set(s.modes) == {"float"}:
        return x
    out = x.copy()
    for v, mode in enumerate(s.modes):
        if mode == "float":
            continue
        out[v] = quantize(x[v], kind, dynamic_scale(x[v], kind[1]) if mode == "dynamic" else 1.0)
        if tally is not None:
            tally.add(name, v, len(s.modes), x[v], out[v])
            if tally.searches is None:
                tally.searches = np.zeros(len(s.modes))
            tally.searches[v] += mode == "dynamic"
    return out


def draw(rng: np.random.Generator, width: int) -> Weights:
    """Standard-normal weights without the variants' axis, the same for both schemes."""
    shapes = {"token": (SYMBOLS, width), "place": (LENGTH, width)}
    shapes |= dict.fromkeys(("q", "k", "v", "o"), (width, width))
    shapes |= {"up": (width, 4 * width), "down": (4 * width, width), "head": (width, SYMBOLS)}
    return {n: rng.standard_normal(shape).astype(np.float32) for n, shape in shapes.items()}


def start(normal: Weights, s: Setup) -> Weights:
    size = np.float32(1.0 if s.mu else 0.02)
    return {n: np.repeat(size * w[None], len(s.rates), 0) for n, w in normal.items()}


def norm(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Layer norm without gain, and 1/σ."""
    centred = x - x.mean(-1, keepdims=True)
    inverse = 1 / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-6)
    return centred * inverse, inverse


def norm_back(g: np.ndarray, y: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    return (g - g.mean(-1, keepdims=True) - y * (g * y).mean(-1, keepdims=True)) * inverse


def activate(x: np.ndarray, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Value and derivative."""
    if kind == "relu":
        return np.maximum(x, 0), (x > 0).astype(x.dtype)
    share = 0.5 * (1 + erf(x / np.sqrt(2).astype(x.dtype)))
    return x * share, share + x * np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi).astype(x.dtype)


def _t(x: np.ndarray) -> np.ndarray:
    return np.swapaxes(x, -1, -2)


def _heads(x: np.ndarray) -> np.ndarray:
    """(V, rows·T, d) -> (V, rows, heads, T, 8)"""
    v, n, d = x.shape
    return x.reshape(v, n // LENGTH, LENGTH, d // HEAD, HEAD).transpose(0, 1, 3, 2, 4)


def _flat(x: np.ndarray) -> np.ndarray:
    v, rows, heads, t, h = x.shape
    return x.transpose(0, 1, 3, 2, 4).reshape(v, rows * t, heads * h)


HIDE = np.triu(np.full((LENGTH, LENGTH), -1e9, np.float32), 1)


class Pass:
    """One forward pass over rows (n, 9) of symbols, kept for `gradients`."""

    def __init__(self, w: Weights, rows: np.ndarray, s: Setup, tally: Tally | None = None):
        self.s, self.tally, self.rows = s, tally, rows
        d, mix = s.width, (np.sqrt(1 - s.tau), np.sqrt(s.tau))
        self.mix = mix if s.mu else (1.0, 1.0)
        if tally is not None and tally.searches is not None:
            tally.searches[:] = 0
        self.cast_w = {n: cast(w[n], s, ACTIVATION, "weight", tally) for n in HIDDEN}
        self.head = w["head"]
        self.x0 = (w["token"][:, rows[:, :-1]] + w["place"][:, None]).reshape(len(s.rates), -1, d)
        if s.mu:
            self.x0 = self.x0 / np.sqrt(2).astype(self.x0.dtype)
        self._attention()
        self.x1, self.n1 = self._join(self.x0, self.a_out)
        self._mlp()
        self.x2, self.n2 = self._join(self.x1, self.m_out)
        self.top, self.top_inverse = norm(self.x2)
        logits = (self.top @ self.head) * self.out_scale
        logits = logits - logits.max(-1, keepdims=True)
        exp = np.exp(logits)
        total = exp.sum(-1, keepdims=True)
        self.p = exp / total
        self.target = rows[:, 1:].ravel()
        at = np.arange(len(self.target))
        self.loss = (np.log(total[..., 0]) - logits[:, at, self.target]).mean(1)

    @property
    def out_scale(self) -> float:
        return 1 / self.s.width if self.s.mu else 1.0

    def _linear(self, x: np.ndarray, name: str) -> np.ndarray:
        return (x @ self.cast_w[name]) * self.s.alpha(self.cast_w[name].shape[1])

    def _cast(self, x: np.ndarray) -> np.ndarray:
        return cast(x, self.s, ACTIVATION, "activation", self.tally)

    def _enter(self, x: np.ndarray) -> tuple[np.ndarray, tuple | None]:
        """µS feeds the branch as it is, the standard block norms first."""
        if self.s.mu:
            return self._cast(x), None
        y = norm(x)
        return self._cast(y[0]), y

    def _join(self, x: np.ndarray, branch: np.ndarray) -> tuple[np.ndarray, tuple | None]:
        if not self.s.mu:
            return x + branch, None
        y = norm(branch)
        a, b = (x.dtype.type(m) for m in self.mix)
        return a * x + b * y[0], y

    def _attention(self) -> None:
        self.ca, self.na = self._enter(self.x0)
        self.q, self.k, self.v = (_heads(self._linear(self.ca, n)) for n in "qkv")
        scores = self.q @ _t(self.k) * HEAD**-0.5 + HIDE
        exp = np.exp(scores - scores.max(-1, keepdims=True))
        self.att = exp / exp.sum(-1, keepdims=True)
        self.co = self._cast(_flat(self.att @ self.v))
        self.a_out = self._linear(self.co, "o")

    def _mlp(self) -> None:
        self.cm, self.nm = self._enter(self.x1)
        hidden, self.slope = activate(self._linear(self.cm, "up"), self.s.activation)
        self.cd = self._cast(hidden)
        self.m_out = self._linear(self.cd, "down")

    def _back(self, g: np.ndarray, x: np.ndarray, name: str, found: Weights) -> np.ndarray:
        """Gradients of one hidden linear; the factor α belongs to both products."""
        g = cast(g, self.s, GRADIENT, "gradient", self.tally)
        alpha = self.s.alpha(self.cast_w[name].shape[1])
        found[name] = (_t(x) @ g) * alpha
        return (g @ _t(self.cast_w[name])) * alpha

    def _split(self, g: np.ndarray, kept: tuple | None) -> tuple[np.ndarray, np.ndarray]:
        """A residual junction's gradient for (stream, branch)."""
        if kept is None:
            return g, g
        a, b = (g.dtype.type(m) for m in self.mix)
        return a * g, norm_back(b * g, *kept)

    def gradients(self) -> Weights:
        """Gradients of the summed loss times the static seed."""
        found: Weights = {}
        g = self.p.copy()
        g[:, np.arange(len(self.target)), self.target] -= 1
        g = g * g.dtype.type(self.s.top)
        found["head"] = (_t(self.top) @ g) * self.out_scale
        g = norm_back((g @ _t(self.head)) * self.out_scale, self.top, self.top_inverse)
        stream, branch = self._split(g, self.n2)
        branch = self._back(self._back(branch, self.cd, "down", found) * self.slope, self.cm, "up", found)
        g = stream + (branch if self.nm is None else norm_back(branch, *self.nm))
        stream, branch = self._split(g, self.n1)
        branch = self._attention_back(_heads(self._back(branch, self.co, "o", found)), found)
        g = stream + (branch if self.na is None else norm_back(branch, *self.na))
        if self.s.mu:
            g = g / np.sqrt(2).astype(g.dtype)
        once = np.eye(SYMBOLS, dtype=g.dtype)[self.rows[:, :-1].ravel()]
        found["token"] = once.T @ g
        found["place"] = g.reshape(len(g), -1, LENGTH, self.s.width).sum(1)
        return found

    def _attention_back(self, g: np.ndarray, found: Weights) -> np.ndarray:
        dv = _t(self.att) @ g
        da = g @ _t(self.v)
        ds = self.att * (da - (da * self.att).sum(-1, keepdims=True)) * HEAD**-0.5
        parts = {"q": ds @ self.k, "k": _t(ds) @ self.q, "v": dv}
        return sum(self._back(_flat(part), self.ca, n, found) for n, part in parts.items())  # type: ignore[return-value]


def train(normal: Weights, batches: Sequence[np.ndarray], s: Setup) -> tuple[Weights, Tally, np.ndarray]:
    """Lion with decoupled decay over the batches: weights, tally of casts, finite (variants,)."""
    if len(batches) < 1:
        raise ValueError("steps: there must be at least 1 step")
    w, tally = start(normal, s), Tally()
    m = {n: np.zeros_like(x) for n, x in w.items()}
    rates = np.array(s.rates, np.float32)[:, None, None]
    fine = np.ones(len(s.rates), bool)
    for t, rows in enumerate(batches):
        seen = Pass(w, rows, s, tally)
        g = seen.gradients()
        good = np.isfinite(seen.loss) & np.all([np.isfinite(x).all((1, 2)) for x in g.values()], axis=0)
        fine &= good
        step = rates * np.float32(0.1 + 0.45 * (1 + np.cos(np.pi * t / len(batches))))
        for n in w:
            hidden = s.mu and n in HIDDEN
            size = step * np.float32(np.sqrt(BASE / s.width)) if hidden else step
            w[n] = np.float32(1 - s.decay) * w[n] - size * np.sign(0.9 * m[n] + 0.1 * g[n]).astype(np.float32)
            m[n] = (0.99 * m[n] + 0.01 * g[n]).astype(np.float32)
            if not fine.all():  # a diverged arm stands still at 0 and is marked by the caller
                w[n][~fine] = 0
                m[n][~fine] = 0
    return w, tally, fine
