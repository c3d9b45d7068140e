"""A stranger's list of thousands: dropped, searched while the map is made, explored, taken away, forgotten."""

import itertools
import json
from urllib.parse import parse_qs, urlparse

import pytest

from core.abstracts import read_collection, read_text
from tests.browser.conftest import ROOT, settled

LISTS = ROOT.parent / "shared" / "lists"
MOST = 3000


@pytest.fixture(scope="module")
def list_file(tmp_path_factory):
    """3,000 real abstracts where they lie beside the project, else as many mixed from the built-in ones."""
    out = tmp_path_factory.mktemp("list") / "conference.jsonl"
    real = sorted(LISTS.glob("ml_*.jsonl"))
    if real:
        lines = real[0].read_text(encoding="utf-8").split("\n")[:MOST]
    else:
        sentences = [a.plain.split(". ") for a in read_collection()]
        pairs = itertools.islice(itertools.product(range(38), range(38), range(3)), MOST)
        lines = [
            json.dumps(
                {
                    "title": f"Paper {a}-{b}-{c}",
                    "abstract": ". ".join(
                        [*sentences[a][c::2], *sentences[b][1 + c :: 2], f"Variant {a} {b} {c}."]
                    ),
                    "area": "abc"[c],
                }
            )
            for a, b, c in pairs
        ]
    out.write_text("\n".join(lines), encoding="utf-8")
    return out


def test_a_list_of_thousands(new_page, address, list_file):
    page = new_page(accept_downloads=True)
    page.set_default_timeout(150_000)
    page.goto(f"{address}/collection")
    page.wait_for_selector("h1")
    settled(page)
    page.set_input_files("input[type=file]", str(list_file))
    page.get_by_role("button", name="Show this list").click()
    settled(page)
    page.get_by_role("link", name="Map", exact=True).click()
    page.get_by_text("Drawing the map of").wait_for()
    box = page.get_by_label("Search").first
    box.fill("language")
    box.press("Enter")
    page.get_by_text("found", exact=False).first.wait_for()
    assert page.locator(".js-plotly-plot").count() == 0, "search works before the map is there"
    page.wait_for_selector(".st-key-wide .js-plotly-plot")
    settled(page)
    shown = page.evaluate(
        "() => document.querySelector('.st-key-wide .js-plotly-plot')._fullData.find(t => t.name === 'papers').type"
    )
    assert shown == "scattergl"
    assert parse_qs(urlparse(page.url).query)["q"] == ["language"]
    page.get_by_role("link", name="Collection", exact=True).click()
    page.wait_for_url("**/collection")
    settled(page)
    with page.expect_download() as got:
        page.get_by_role("button", name="JSONL").first.click()
    again = read_text(got.value.path().read_bytes(), "again.jsonl")
    before = read_text(list_file.read_bytes(), list_file.name)
    assert [a.text for a in again] == [a.text for a in before]
    other = new_page()
    other.goto(f"{address}/collection")
    other.wait_for_selector("h1")
    settled(other)
    assert other.get_by_text("conference").count() == 0, "another viewer never sees the list"
    page.get_by_role("button", name="Forget my list").click()
    page.get_by_text("38 abstracts").first.wait_for()


def test_names_follow_zoom_and_never_overlap(new_page, address):
    page = new_page()
    page.goto(f"{address}/topic_map")
    page.wait_for_selector(".map-names span")

    def boxes():
        return page.evaluate(
            "() => [...document.querySelectorAll('.map-names span')].map(e => {"
            "const r = e.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; })"
        )

    def overlaps(found):
        return [
            (a, b)
            for a, b in itertools.combinations(found, 2)
            if a[0] < b[2] - 1 and b[0] < a[2] - 1 and a[1] < b[3] - 1 and b[1] < a[3] - 1
        ]

    before = boxes()
    assert len(before) >= 30
    assert overlaps(before) == []
    place = page.locator(".st-key-wide .js-plotly-plot").bounding_box()
    page.mouse.move(place["x"] + 400, place["y"] + 320)
    for _ in range(4):
        page.mouse.wheel(0, -300)
        page.wait_for_timeout(150)
    page.wait_for_timeout(800)
    after = boxes()
    assert 0 < len(after) < len(before)
    assert overlaps(after) == []


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("", "q=federated&order=A–Z"),
        ("topic_map", "q=federated&colour=File"),
        ("claims", "verdict=fails&view=Table"),
        ("method", "method=bass&agents=11"),
        ("present", "deck=bass,fedecado&slide=4"),
    ],
)
def test_the_share_button_gives_what_is_on_the_screen(new_page, address, path, query):
    page = new_page()
    page.goto(f"{address}/{path}?{query}")
    page.get_by_role("button", name="Share").wait_for()
    settled(page)
    page.get_by_role("button", name="Share").click()
    box = page.locator("[data-testid=stPopoverBody]")
    link = box.locator("[data-testid=stCode]").inner_text().strip()
    assert box.locator("img").evaluate("e => e.complete && e.naturalWidth > 0"), "the QR code is a picture"
    asked = parse_qs(query)
    assert parse_qs(urlparse(link).query) == asked
    other = new_page()
    other.goto(link)
    other.get_by_role("button", name="Share").wait_for()
    settled(other)
    assert parse_qs(urlparse(other.url).query) == asked
    words = (
        "() => document.querySelector('[data-testid=stMain]').innerText.replaceAll('expand_less', 'expand_more')"
    )
    other.wait_for_function(f"text => ({words})().slice(0, 400) === text", arg=page.evaluate(words)[:400])


def test_figures_are_saved_as_svg(new_page, address):
    page = new_page(accept_downloads=True)
    page.goto(f"{address}/method?method=bass")
    page.wait_for_selector(".js-plotly-plot .main-svg")
    settled(page)
    with page.expect_download() as got:
        page.get_by_title("Save every figure of this page as SVG").click()
    assert got.value.suggested_filename.endswith(".svg")
    assert b"<svg" in got.value.path().read_bytes()
