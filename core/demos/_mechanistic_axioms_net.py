"""2-SAT formulas as tokens, and the two-block transformer that learns to decide them (gradients by hand)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from core.lab.nets import Adam, minibatches

WIDTH, INNER, HIDDEN, HEADS = 24, 48, 32, 2
RATE, BETA2, DECAY, PER_CLASS, WARM_UP = 5e-3, 0.99, 0.1, 24, 30
TRAIN_SHARE = 0.7


@dataclass(frozen=True)
class Language:
    """All formulas of `clauses` ordered pairs of literals over `variables` variables.

    Literal 2v is variable v, literal 2v + 1 its negation; assignment k reads the variables as binary digits,
    the first variable leading.
    """

    variables: int = 2
    clauses: int = 3

    def __post_init__(self) -> None:
        if not 2 <= self.variables <= 3:
            raise ValueError(f"variables cannot be {self.variables}: it may be 2 to 3")
        if not 3 <= self.clauses <= 5:
            raise ValueError(f"clauses cannot be {self.clauses}: it may be 3 to 5")
        if self.pairs**self.clauses > 2_000_000:
            raise ValueError(
                f"clauses: {self.clauses} with {self.variables} variables are too many formulas to list"
            )

    @property
    def literals(self) -> int:
        return 2 * self.variables

    @property
    def pairs(self) -> int:
        """Ordered pairs of literals."""
        return self.literals**2

    @property
    def length(self) -> int:
        """Tokens of a formula with its ':'."""
        return 2 * self.clauses + 1

    @cached_property
    def literal_truth(self) -> np.ndarray:
        """(literals, assignments): is the literal true?"""
        assignment = np.arange(2**self.variables)
        value = (assignment >> np.arange(self.variables)[::-1, None]) & 1
        return np.stack([value == 1, value == 0], axis=1).reshape(self.literals, -1)

    @cached_property
    def pair_truth(self) -> np.ndarray:
        """(pairs, assignments): is the clause true?"""
        either = self.literal_truth[:, None] | self.literal_truth[None]
        return either.reshape(self.pairs, -1)

    def every_formula(self) -> np.ndarray:
        """(formulas, clauses): the pair at each place, all formulas."""
        codes = np.arange(self.pairs**self.clauses)[:, None]
        return (codes // self.pairs ** np.arange(self.clauses)[::-1]) % self.pairs

    def tokens(self, formulas: np.ndarray) -> np.ndarray:
        """(n, clauses) pairs → (n, length) tokens, ':' last."""
        split = np.stack(np.divmod(formulas, self.literals), axis=2).reshape(len(formulas), -1)
        return np.pad(split, ((0, 0), (0, 1)), constant_values=self.literals)

    def satisfiable(self, formulas: np.ndarray) -> np.ndarray:
        return self.pair_truth[formulas].all(axis=1).any(axis=1)


@dataclass(frozen=True)
class Split:
    """Training and held-out formulas (n, clauses), no formula in both; labels True for satisfiable."""

    train: np.ndarray
    held_out: np.ndarray
    train_labels: np.ndarray
    held_out_labels: np.ndarray


def split(language: Language, rng: np.random.Generator) -> Split:
    """A random 70 % of all formulas for training, the rest held out."""
    formulas = rng.permutation(language.every_formula())
    labels = language.satisfiable(formulas)
    cut = round(TRAIN_SHARE * len(formulas))
    return Split(formulas[:cut], formulas[cut:], labels[:cut], labels[cut:])


def balanced(labels: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """n row numbers drawn with replacement, half of them satisfiable."""
    yes, no = np.flatnonzero(labels), np.flatnonzero(~labels)
    return np.concatenate([rng.choice(yes, n - n // 2), rng.choice(no, n // 2)])


def _softmax(scores: np.ndarray) -> np.ndarray:
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _softmax_back(weights: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    product = weights * gradient
    return product - weights * product.sum(axis=-1, keepdims=True)


def _shapes(words: int, length: int) -> dict[str, tuple[int, ...]]:
    d = WIDTH
    block = {"qkv": (d, 3 * d), "o": (d, d), "w1": (d, INNER), "b1": (INNER,), "w2": (INNER, d), "b2": (d,)}
    readout = {"q": (d, d), "kv": (d, 2 * d), "o2": (d, d), "u": (d, HIDDEN), "bu": (HIDDEN,)}
    return {"token": (words, d), "place": (length, d)} | block | readout | {"w": (HIDDEN,), "c": (1,)}


class Network:
    """The transformer; `flat` holds all parameters, `p` views of it by name."""

    def __init__(self, words: int, length: int, rng: np.random.Generator, dtype: type = np.float32):
        self.shapes = _shapes(words, length)
        self.flat: np.ndarray = np.zeros(sum(int(np.prod(s)) for s in self.shapes.values()), dtype)
        self.p = self.views(self.flat)
        scales = {"token": 0.5, "place": 0.5, "w1": (2 / WIDTH) ** 0.5, "u": (2 / WIDTH) ** 0.5, "w": 0.2}
        scales |= dict.fromkeys(("qkv", "o", "q", "kv", "o2"), WIDTH**-0.5) | {"w2": INNER**-0.5}
        for name, scale in scales.items():
            self.p[name][:] = scale * rng.standard_normal(self.shapes[name])
        np.abs(self.p["w"], out=self.p["w"])  # at the start every neuron votes for SAT
        self.mask: np.ndarray = np.triu(np.full((length, length), -1e9, dtype), 1)

    def views(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        """The parts of a flat array, by parameter name."""
        out, at = {}, 0
        for name, shape in self.shapes.items():
            size = int(np.prod(shape))
            out[name] = flat[at : at + size].reshape(shape)
            at += size
        return out

    def block(self, tokens: np.ndarray) -> dict[str, np.ndarray]:
        """t₁: tokens (n, L) → `z` (n, L, d), with `attention` (n, L, L) and what the gradient needs."""
        p = self.p
        x = p["token"][tokens] + p["place"]
        q, k, v = np.split(x @ p["qkv"], 3, axis=2)
        attention = _softmax(q @ k.swapaxes(1, 2) * WIDTH**-0.5 + self.mask)
        mixed = attention @ v
        y = x + mixed @ p["o"]
        inner = np.maximum(y @ p["w1"] + p["b1"], 0)
        z = y + inner @ p["w2"] + p["b2"]
        return {
            "x": x,
            "q": q,
            "k": k,
            "v": v,
            "attention": attention,
            "mixed": mixed,
            "y": y,
            "inner": inner,
            "z": z,
        }

    def hidden(self, z: np.ndarray) -> dict[str, np.ndarray]:
        """t₂: z (n, L, d) → `u` (n, hidden), with the last token's `attention` (n, heads, L)."""
        p, n, length = self.p, *z.shape[:2]
        q = (z[:, -1] @ p["q"]).reshape(n, HEADS, 1, -1)
        k, v = (a.reshape(n, length, HEADS, -1).swapaxes(1, 2) for a in np.split(z @ p["kv"], 2, axis=2))
        attention = _softmax((q @ k.swapaxes(2, 3))[:, :, 0] * (WIDTH // HEADS) ** -0.5)
        mixed = (attention[:, :, None] @ v).reshape(n, WIDTH)
        r = z[:, -1] + mixed @ p["o2"]
        u = np.maximum(r @ p["u"] + p["bu"], 0)
        return {"q": q, "k": k, "v": v, "attention": attention, "mixed": mixed, "r": r, "u": u}

    def output(self, u: np.ndarray) -> np.ndarray:
        """t₃: u (n, hidden) → satisfiable (n,)?"""
        return self.score(u) > 0

    def score(self, u: np.ndarray) -> np.ndarray:
        return u @ self.p["w"] + self.p["c"]

    def gradient(self, tokens: np.ndarray, signs: np.ndarray) -> tuple[float, np.ndarray]:
        """Mean of log(1 + exp(−sign · score)) and its gradient in the layout of `flat`."""
        flat = np.zeros_like(self.flat)
        g = self.views(flat)
        one = self.block(tokens)
        two = self.hidden(one["z"])
        margin = signs * self.score(two["u"])
        with np.errstate(over="ignore"):  # exp of a huge loss: 1/(1 + ∞) is the right 0
            ds = -signs / (1 + np.exp(margin)) / len(signs)
        dz = self._hidden_back(g, one["z"], two, ds)
        self._block_back(g, tokens, one, dz)
        return float(np.logaddexp(0, -margin).mean()), flat

    def _hidden_back(self, g: dict, z: np.ndarray, two: dict, ds: np.ndarray) -> np.ndarray:
        """Gradient from the scores (n,) back to z; fills the entries of `g` on the way."""
        p, n = self.p, len(z)
        g["w"][:], g["c"][:] = two["u"].T @ ds, ds.sum()
        du = ds[:, None] * p["w"] * (two["u"] > 0)
        g["u"][:], g["bu"][:] = two["r"].T @ du, du.sum(axis=0)
        dr = du @ p["u"].T
        g["o2"][:] = two["mixed"].T @ dr
        dmixed = (dr @ p["o2"].T).reshape(n, HEADS, 1, -1)
        a = two["attention"]
        dv = a[..., None] * dmixed
        da = (dmixed @ two["v"].swapaxes(2, 3))[:, :, 0]
        dscore = _softmax_back(a, da) * (WIDTH // HEADS) ** -0.5
        dq = (dscore[:, :, None] @ two["k"]).reshape(n, WIDTH)
        dk = dscore[..., None] * two["q"]
        dkv = np.concatenate([d.swapaxes(1, 2).reshape(*z.shape) for d in (dk, dv)], axis=2)
        g["q"][:] = z[:, -1].T @ dq
        g["kv"][:] = z.reshape(-1, WIDTH).T @ dkv.reshape(-1, 2 * WIDTH)
        dz = dkv @ p["kv"].T
        dz[:, -1] += dr + dq @ p["q"].T
        return dz

    def _block_back(self, g: dict, tokens: np.ndarray, one: dict, dz: np.ndarray) -> None:
        """Gradient from z back to the tokens."""
        p = self.p

        def rows(a: np.ndarray) -> np.ndarray:
            return a.reshape(-1, a.shape[-1])

        g["w2"][:], g["b2"][:] = rows(one["inner"]).T @ rows(dz), rows(dz).sum(axis=0)
        dinner = (dz @ p["w2"].T) * (one["inner"] > 0)
        g["w1"][:], g["b1"][:] = rows(one["y"]).T @ rows(dinner), rows(dinner).sum(axis=0)
        dy = dz + dinner @ p["w1"].T
        g["o"][:] = rows(one["mixed"]).T @ rows(dy)
        dmixed = dy @ p["o"].T
        dscore = _softmax_back(one["attention"], dmixed @ one["v"].swapaxes(1, 2)) * WIDTH**-0.5
        dv = one["attention"].swapaxes(1, 2) @ dmixed
        dqkv = np.concatenate([dscore @ one["k"], dscore.swapaxes(1, 2) @ one["q"], dv], axis=2)
        g["qkv"][:] = rows(one["x"]).T @ rows(dqkv)
        dx = dy + dqkv @ p["qkv"].T
        g["place"][:] = dx.sum(axis=0)
        g["token"][:] = np.eye(len(g["token"]), dtype=dx.dtype)[tokens.ravel()].T @ rows(dx)


def train(language: Language, data: Split, steps: int, rng: np.random.Generator) -> Network:
    """Adam with decoupled decay on class-balanced batches; the rate warms up, then falls to a twentieth."""
    net = Network(language.literals + 1, language.length, rng)
    tokens = language.tokens(data.train)
    classes = [np.flatnonzero(data.train_labels), np.flatnonzero(~data.train_labels)]
    signs = np.repeat(np.array([1, -1], np.float32), PER_CLASS)
    batches = [minibatches(rng, len(rows), PER_CLASS, steps) for rows in classes]
    adam = Adam(beta2=BETA2)
    for step, (yes, no) in enumerate(zip(*batches, strict=True)):
        batch = np.concatenate([classes[0][yes], classes[1][no]])
        loss, gradient = net.gradient(tokens[batch], signs)
        if not np.isfinite(loss):
            raise ValueError(f"steps: training diverged after {step} steps, the loss is not finite")
        rate = RATE * min(1.0, (step + 1) / WARM_UP) * (1 - 0.95 * step / steps)
        net.flat *= net.flat.dtype.type(1 - rate * DECAY)
        adam.step([net.flat], [gradient], rate)
    return net
