"""Plain text, page Markdown and quotes of marked-up abstracts, against values stated by hand."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.abstracts import Quote, display_with_quotes, find_quote, parse

PLAIN = {
    # words stay whole
    "**E**ntropy-driven **D**igraph knowl**E**dge distillatio**N** (EDEN)": "Entropy-driven Digraph knowlEdge distillatioN (EDEN)",
    "lead to *modality laziness* and *modality clash*": "lead to modality laziness and modality clash",
    "a * b * c, a*b*c and snake_case_name, __init__": "a * b * c, a*b*c and snake_case_name, __init__",
    "a *set **of** x* ***both***": "a set of x both",
    # LaTeX in the running text
    r"\textit{µnit Scaling (µS)}": "µnit Scaling (µS)",
    r"{\em x} and \emph{a \textbf{b}}": "x and a b",
    r"R\'enyi, Schr{\"o}dinger, Schr\"odinger, Erd\H{o}s, Erd\H os, \c{C}a, \'{\i}": "Rényi, Schrödinger, Schrödinger, Erdős, Erdős, Ça, í",
    r"35\% or more": "35% or more",
    r"more than \$8 trillion": "more than $8 trillion",
    r"not their i.i.d.\ nature": "not their i.i.d. nature",
    "adversaries -- that is --- all": "adversaries – that is — all",
    "run --verbose, ~30 of Fig.~1, 1~2": "run --verbose, ~30 of Fig. 1, 1~2",
    "``x'' and `y'": "“x” and 'y'",
    r"\foo{kept} spaces, \ours is \alpha-fair": "kept spaces, ours is α-fair",
    r"\textcolor{red}{x}, \footnote{y} {S}OTA \cite{smith20}": "x, y SOTA [smith20]",
    r"\begin{itemize}\item one\item two\end{itemize}": "• one • two",
    r"A\textsuperscript{2}C": "A^2C",
    # formulas
    "MERGE$^3$, an": "MERGE^3, an",
    r"almost $3\times$ less": "almost 3× less",
    r"ImageNet256$\times$256": "ImageNet256×256",
    r"**6.50\%$\uparrow$** on": "6.50%↑ on",
    r"$\{F_1(x),\dots,F_n(x)\}$": "(F_1(x),…,F_n(x))",
    r"size $\tilde{O}(\frac{mT}{\epsilon})+S$": "size Õ(mT/ϵ)+S",
    r"\(x^2\), \[y\], \begin{equation}a=b\end{equation}": "x^2, y, a=b",
    # money and lone signs
    "costs $8 trillion and $O(n)$ time": "costs $8 trillion and O(n) time",
    "from $5–$10 or $5 to $10 million": "from $5–$10 or $5 to $10 million",
    "echo $HOME and $PATH": "echo $HOME and $PATH",
    r"$\href{javascript:x}{y}$": "href javascript:xy",
    "x [a](https://a.io/b) y, ![](https://c.io) ***a *b* c*** d": "x a y, https://c.io a b c d",
    "one $ alone": "one $ alone",
    # links
    "at [https://a.io/b](https://a.io/b).": "at https://a.io/b.",
    r"at~\href{https://a.io}{\texttt{a.io}}.": "at a.io.",
    "at https://a.io/ntk-dfl}{https://a.io/ntk-dfl": "at https://a.io/ntk-dfl",
    # HTML
    "&lt;5% &amp; R&eacute;nyi &#x27;x&#x27; <b>E</b>xtracting<br>We": "<5% & Rényi 'x' Extracting We",
    "&amp;lt; and &unknown; and AT&T": "< and &unknown; and AT&T",
    "p < 0.05 and q > 3, (<100m), a <b": "p < 0.05 and q > 3, (<100m), a <b",
    "<script>alert(1)</script>": "<script>alert(1)</script>",
    "CO<sub>2</sub>, 1<sup>st</sup>": "CO_2, 1st",
    # white space and invisible characters
    "a\u200bb  c\u00a0d\r\ne\n\nf\u202e": "ab c d e f",
    "naïve Rényi ’ — ×": "naïve Rényi ’ — ×",
}  # fmt: skip


@pytest.mark.parametrize("text", PLAIN)
def test_plain(text):
    assert parse(text).plain == PLAIN[text]


def test_epsilon_is_a_greek_letter():
    assert parse(r"$\epsilon$-coresets").plain in ("ϵ-coresets", "ε-coresets")


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        (r"constructing $\epsilon$-coresets", r"constructing $\epsilon$\-coresets"),
        ("MERGE$^3$", "MERGE$^3$"),
        (r"\$8 trillion and $x$", r"\$8 trillion and $x$"),
        ("knowl**E**dge", "knowl**E**dge"),
        (r"\textit{µnit Scaling (µS)}", r"*µnit Scaling \(µS\)*"),
        (r"\texttt{a\_b}", "`a_b`"),
        ("[text](https://a.io)", "[text](<https://a.io>)"),
        (r"\href{https://a.io}{\texttt{a.io}}", "[`a.io`](<https://a.io>)"),
        ("one\n\ntwo", "one\n\ntwo"),
        ("# no heading", r"\# no heading"),
        ("1. no list", r"1\. no list"),
        ("<b>x</b> <i>y</i>", "**x** *y*"),
    ],
)
def test_display(text, markdown):
    assert parse(text).display == markdown


def test_links_are_clean_and_only_web_addresses():
    text = (
        r"\href{https://a.io/x\_y}{A} (https://b.io/c_(d)). <https://e.io> https://f.io}{https://f.io "
        "[x](javascript:alert(1)) [y](ftp://g.io) [z](data:text/html,x) \\href{javascript:x}{w}"
    )
    assert parse(text).links == ("https://a.io/x_y", "https://b.io/c_(d)", "https://e.io", "https://f.io")


def unescaped(markdown: str) -> str:
    """What is left to be interpreted once formulas, code, escapes and link targets are taken away."""
    return re.sub(r"\\.|\$[^$]+\$|`[^`]+`|\]\(<https?://[^<>]*>\)", "", markdown)


HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[x](javascript:alert(1))",
    "![](https://evil.io/a.png) ![b](data:image/png;base64,AA)",
    ":smile: :streamlit: :red[x] a:b@c :material/face:",
    "~~gone~~ | a | b |\n|---|---|",
    "[x][y]\n\n[y]: https://evil.io",
    r"$\href{javascript:alert(1)}{x}$ $\includegraphics{https://evil.io/a.png}$ $\htmlClass{a}{b}$",
    "$5 and $10, then $x$",
    "> quote\n\n# heading\n\n```\ncode\n```",
    "[^1] `tick \\` `",
    "a@b.io www.evil.io",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(text):
    display = parse(text).display
    assert not re.search(r"[<>|~#]|!\[|\]\((?!<https?://)|\]\[|(?<!\\)`\w*$", unescaped(display))
    assert not re.search(r"\\:[\w+/-]+\\:", display)  # Streamlit looks for shortcodes after unescaping
    assert "\\href" not in display.replace("\\\\href", "")
    assert "![" not in display


def test_shortcodes_and_mail_addresses_are_kept_apart():
    assert parse(":smile:").display == "\\:\u2060smile\\:"
    assert parse("&#58;smi\\textbf{}le:").display.count("\u2060") == 1
    assert parse("a@b.io").display == "a@\u2060b\\.io"


def test_formula_next_to_digit_or_dollar():
    """Streamlit starts no formula whose closing dollar touches a digit or another dollar."""
    assert parse(r"256$\times$256").display == "256$\\times$\u2060256"
    assert parse("$a$$b$").display == "$a$\u2060$b$"


def test_emphasis_that_markdown_would_not_see():
    """A closing `**` behind punctuation and before a letter needs a joiner (CommonMark, right-flanking)."""
    assert parse("a **b.**c").display == "a **b\\.\u2060**c"
    assert parse("**b.** c").display == "**b\\.** c"


any_text = st.text(max_size=300) | st.lists(
    st.sampled_from(
        [
            *"ab $*_`\\{}[]()<>#~:&-\n1",
            "**",
            "$$",
            "\\textbf{",
            "\\emph{",
            "{\\em ",
            "\\href{https://a.io}{",
            "$x$",
            "](https://a.io)",
            "https://b.io",
            "\\'e",
            "&lt;",
            "<b>",
            "</b>",
            "<i>",
            "\\[",
            "\\]",
            "\\begin{align}",
        ]
    ),
    max_size=60,
).map("".join)


@settings(max_examples=400, deadline=None)
@given(any_text)
def test_never_raises_and_never_leaves_live_markup(text):
    parsed = parse(text)
    assert isinstance(parsed.plain, str)
    assert "![" not in parsed.display
    assert not re.search(r"[<>]", unescaped(parsed.display))
    assert all(link.lower().startswith(("http://", "https://")) for link in parsed.links)
    assert not re.search("[\x00-\x08\x0e-\x1f\ud800-\udfff]", parsed.plain + parsed.display)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=st.characters(exclude_characters="\\&<$~`", exclude_categories=("Cc", "Cf", "Cs"))))
def test_no_letter_is_lost(text):
    """Without macros, entities, tags and formulas, every letter and digit is still there, in order."""
    letters = re.sub(r"[\W_]", "", text)
    if "http" not in text.lower():
        assert re.sub(r"[\W_]", "", parse(text).plain) == letters


@settings(max_examples=200, deadline=None)
@given(any_text)
def test_plain_text_reads_as_itself(text):
    """Escaping is complete: a text without mark-up signs comes through unchanged."""
    calm = " ".join(re.sub(r"[^\w .,;()]|_", "", text).split())
    assert parse(calm).plain == calm


@pytest.mark.parametrize("sign", ["$", "{", "*", "[", "\\", "}", "]", "`", "<", "_", "~", "a "])
def test_a_million_signs_take_under_a_second(sign):
    start = time.process_time()
    parsed = parse(sign * (1_000_000 // len(sign)))
    assert parsed.plain is not None
    assert parsed.display is not None
    assert time.process_time() - start < 1


@pytest.mark.parametrize(
    "unit", ["$a", "{a", "**a ", "[a](", "\\a", "<b>", "`a ", "\\(", "\\begin{equation}", "$x$ "]
)
def test_time_is_linear(unit):
    def seconds(size: int) -> float:
        start = time.process_time()
        _ = parse(unit * (size // len(unit))).display
        return time.process_time() - start

    seconds(2_000)
    short = min(seconds(20_000) for _ in range(3))
    assert seconds(160_000) < 30 * short + 0.2  # eight times as long: 64 times as slow if it were quadratic


TEXT = (
    r"We propose **E**ntropy-driven **D**igraph learning at [https://a.io](https://a.io), "
    r"of size $\tilde{O}(x)$, 35\% or *more*. We propose $[0,1)$ too."
)


def quote(words: str, mark: str = "✓", color: str = "blue", anchor: str = "holds-1", tip: str = "") -> Quote:
    return Quote(words, color, mark, anchor, tip)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("Entropy-driven Digraph", "Entropy-driven Digraph"),  # across mark-up
        ("driven **D**igraph", "driven Digraph"),  # as given
        (r"35\% or *more*", "35% or more"),
        ("driven **D", "driven D"),  # as given, cut through mark-up
        (r"x)$, 35\% or *mo", "Õ(x), 35% or mo"),
        ("ropy", "ropy"),  # inside a word
        ("https://a.io", "https://a.io"),
        (r"$\tilde{O}(x)$", "Õ(x)"),
    ],
)
def test_find_quote(words, found):
    span = find_quote(TEXT, words)
    assert span is not None
    assert parse(TEXT).plain[slice(*span)] == found


@pytest.mark.parametrize("words", ["nowhere", "", " "])
def test_quotes_that_do_not_occur(words):
    assert find_quote(TEXT, words) is None
    with pytest.raises(ValueError, match=re.escape(repr(words))):
        display_with_quotes(TEXT, [quote(words)])


def test_quote_is_a_coloured_link():
    marked = display_with_quotes("We get 35% or more.", [quote("35% or more", tip='holds: "0.5" [x]')])
    assert marked == 'We get [:blue-background[35% or more\u2009✓]](#holds-1 "holds\\: \\"0\\.5\\" \\[x\\]")\\.'


def test_quote_across_markup_link_and_formula():
    marked = display_with_quotes(TEXT, [quote("Digraph learning at https://a.io, of size Õ(x)")])
    assert (
        "[:blue-background[**D**igraph learning at https\\://a\\.io, of size $\\tilde{O}(x)$\u2009✓]](#holds-1)"
        in marked
    )


def test_single_bracket_of_a_formula_does_not_end_the_colour():
    assert r"[:red-background[$\lbrack 0,1)$" in display_with_quotes(
        TEXT, [quote("$[0,1)$", "✗", "red", "fails-1")]
    )


def test_identical_quotes_show_both_marks():
    marked = display_with_quotes("So a b.", [quote("a b"), quote("a b", "✗", "red", "fails-2")])
    assert marked == "So [:blue-background[a b\u2009✓]](#holds-1)[:red-background[\u2009✗]](#fails-2)\\."


def test_quote_inside_another_and_overlap():
    marked = display_with_quotes("a b c d e", [quote("a b c d"), quote("b", "✗", "red", "fails-2")])
    assert marked == (
        "[:blue-background[a ]](#holds-1)[:red-background[b\u2009✗]](#fails-2)[:blue-background[ c d\u2009✓]](#holds-1) e"
    )
    overlap = display_with_quotes("a b c d e", [quote("a b c"), quote("c d e", "✗", "red", "fails-2")])
    assert overlap.count("✓") == overlap.count("✗") == 1


def test_no_quotes_is_the_display():
    assert display_with_quotes(TEXT, ()) == parse(TEXT).display


def test_quote_over_two_paragraphs_marks_each():
    marked = display_with_quotes("a b\n\nc d", [quote("b c")])
    assert marked == "a [:blue-background[b]](#holds-1)\n\n[:blue-background[c\u2009✓]](#holds-1) d"


@pytest.mark.parametrize(("color", "anchor"), [("green", "holds-1"), ("blue", "x) [evil"), ("blue", "")])
def test_quotes_are_checked(color, anchor):
    with pytest.raises(ValueError, match="of the quote 'x'"):
        quote("x", color=color, anchor=anchor)


@settings(max_examples=150, deadline=None)
@given(any_text, st.integers(0, 60), st.integers(1, 60))
def test_any_piece_of_the_plain_text_can_be_quoted(text, start, length):
    words = parse(text).plain[start : start + length].strip()
    if words:
        assert find_quote(text, words) is not None
        assert "(#holds-1)" in display_with_quotes(text, [quote(words)])
