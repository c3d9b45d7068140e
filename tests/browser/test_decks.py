"""Decks in a real browser: keys from anywhere, speed of a turn, links of slides, and the file without a network."""

import re
from urllib.parse import parse_qs, urlparse

import pytest

from core.deck import __main__ as command
from core.demos import catalogue
from tests.browser.conftest import settled

TEN = sorted(catalogue())[:10]
DRAWN = "() => document.querySelectorAll('.js-plotly-plot .main-svg').length > 0"


def slide(page):
    return int(parse_qs(urlparse(page.url).query)["slide"][0])


def at_slide(page, number):
    page.wait_for_function(f"() => new URL(location.href).searchParams.get('slide') === '{number}'")
    settled(page)


def open_deck(page, address, deck, number=1):
    page.goto(f"{address}/present?deck={deck}&slide={number}")
    page.wait_for_selector(".st-key-stage")
    settled(page)


def test_a_clicker_works_after_anything_was_touched(new_page, address):
    page = new_page(viewport={"width": 1280, "height": 720})
    open_deck(page, address, "bass,fedecado", 3)
    page.wait_for_function(DRAWN)
    page.locator(".js-plotly-plot").first.click()
    page.keyboard.press("PageDown")
    at_slide(page, 4)
    page.keyboard.press("b")
    at_slide(page, 3)
    page.get_by_role("button", name="›", exact=True).click()
    at_slide(page, 4)
    page.keyboard.press(" ")
    at_slide(page, 5)
    page.get_by_role("button", name="Try").click()
    page.get_by_role("button", name="+").first.click()
    page.wait_for_function("() => new URL(location.href).searchParams.size === 3")
    kept = page.url
    page.keyboard.press("ArrowRight")
    at_slide(page, 6)
    page.keyboard.press("End")
    at_slide(page, 7)
    page.keyboard.press("PageDown")
    page.keyboard.press("Home")
    at_slide(page, 1)
    page.keyboard.press("Escape")
    page.wait_for_function("() => !new URL(location.href).searchParams.has('slide')")
    other = new_page(viewport={"width": 1280, "height": 720})
    other.goto(kept)
    other.wait_for_selector(".st-key-stage")
    settled(other)
    assert other.url == kept, "a slide's link keeps its live setting"


def test_a_slide_has_no_chrome_and_fits_a_projector(new_page, address):
    for scheme in ("light", "dark"):
        page = new_page(viewport={"width": 1280, "height": 720}, color_scheme=scheme)
        for number in range(1, 6):
            open_deck(page, address, "bass", number)
            assert not page.locator("[data-testid=stHeader]").is_visible()
            assert page.locator("[data-testid=stSidebar]").count() == 0
            low = page.evaluate("() => document.querySelector('.st-key-stage').getBoundingClientRect().bottom")
            assert low <= 726, f"slide {number} ends at {low}"
            wide = page.evaluate("() => document.documentElement.scrollWidth")
            assert wide <= 1280
        sizes = page.evaluate(
            "() => [...document.querySelectorAll('.slide-verdicts *, .slide-head *')]"
            ".map(e => parseFloat(getComputedStyle(e).fontSize))"
        )
        assert min(sizes) >= 20


@pytest.mark.parametrize("size", [(1280, 720), (1920, 1080), (2560, 1080), (400, 800)])
def test_figures_are_whole_in_every_window(new_page, address, size):
    """A figure's drawing is as wide as its place and no wider, and so is the page: nothing is cut or doubled."""
    page = new_page(viewport={"width": size[0], "height": size[1]})
    for number in (2, 3, 4):
        open_deck(page, address, "bass", number)
        page.wait_for_function(DRAWN)
        page.wait_for_timeout(800)
        settled(page)
        found = page.evaluate(
            """() => [...document.querySelectorAll('.js-plotly-plot')].map(p => {
            const svg = p.querySelector('.main-svg').getBoundingClientRect(), place = p.getBoundingClientRect();
            const words = [...p.querySelectorAll('text')].map(t => t.getBoundingClientRect()).filter(r => r.width);
            return [svg.width - place.width, svg.right, Math.max(...words.map(r => r.right))]; })"""
        )
        assert found
        for surplus, right, words in found:
            assert abs(surplus) < 2, (number, found)
            assert right <= size[0]
            assert words <= size[0]
        assert page.evaluate("() => document.documentElement.scrollWidth") <= size[0]


def test_notes_open_beside_the_slide(new_page, address):
    page = new_page(viewport={"width": 1280, "height": 720})
    open_deck(page, address, "bass", 3)
    page.keyboard.press("n")
    page.wait_for_selector(".st-key-notes")
    assert "linear bandit" in page.locator(".st-key-notes").inner_text()
    assert "notes=1" in page.url
    page.keyboard.press("n")
    page.wait_for_selector(".st-key-notes", state="detached")


def test_stepping_through_ten_methods_is_quick(new_page, address):
    """Each slide's figure stands within half a second of the key, once its neighbours were computed ahead."""
    page = new_page(viewport={"width": 1280, "height": 720})
    open_deck(page, address, ",".join(TEN), 22)
    for number in range(21, 1, -1):  # backwards, so that both neighbours of every slide are computed
        page.wait_for_timeout(300)
        page.keyboard.press("ArrowLeft")
        at_slide(page, number)
    waits = []
    for number in range(3, 23):
        page.wait_for_timeout(600)
        page.evaluate(
            """() => { window.stood = null; const before = document.querySelector('.slide-head')?.textContent;
            document.addEventListener('keydown', () => { const begun = performance.now(); const look = () => {
              const head = document.querySelector('.slide-head')?.textContent;
              const now = document.querySelector('.js-plotly-plot .main-svg');
              if (head !== before && now) window.stood = performance.now() - begun;
              else requestAnimationFrame(look); }; look(); }, { once: true, capture: true }); }"""
        )
        page.keyboard.press("ArrowRight")
        page.wait_for_function("() => window.stood !== null")
        waits.append(round(page.evaluate("() => window.stood")))
        at_slide(page, number)
    assert max(waits) < 500, waits


def test_choosing_by_topic_and_starting(new_page, address):
    page = new_page()
    page.goto(f"{address}/present")
    page.wait_for_selector("h1")
    settled(page)
    page.get_by_role("button", name=re.compile("^Bandits")).click()
    page.wait_for_url("**deck=bass*")
    page.get_by_role("button", name="Start").click()
    at_slide(page, 1)
    assert page.locator(".slide-cover").is_visible()


@pytest.fixture(scope="module")
def deck_file(tmp_path_factory):
    out = tmp_path_factory.mktemp("deck") / "deck.html"
    out.write_text(command.build(["bass", "fedecado"]), encoding="utf-8")
    return out


def test_the_file_works_without_a_network(new_page, deck_file):
    page = new_page(offline=True, viewport={"width": 1280, "height": 720})
    asked, faults = [], []
    page.on("request", lambda r: asked.append(r.url) if not r.url.startswith(("file:", "data:", "blob:")) else None)
    page.on("pageerror", lambda e: faults.append(str(e)))
    page.on("console", lambda m: faults.append(m.text) if m.type == "error" else None)
    page.goto(deck_file.as_uri())
    number = page.locator("footer output")
    assert number.inner_text() == "1 / 7"
    for key, shown in (
        ("ArrowRight", 2),
        ("PageDown", 3),
        ("b", 4),
        ("b", 3),
        (" ", 4),
        ("PageUp", 3),
        ("End", 7),
        ("ArrowRight", 7),
        ("Home", 1),
        ("ArrowLeft", 1),
    ):
        page.keyboard.press(key)
        assert number.inner_text() == f"{shown} / 7"
    page.get_by_role("button", name="Next slide").click()
    page.keyboard.press(" ")
    assert number.inner_text() == "3 / 7"
    assert page.locator(".slide.on .main-svg").count() >= 1
    page.keyboard.press("n")
    assert page.locator(".slide.on .notes math").first.is_visible()
    page.goto(deck_file.as_uri() + "#4")
    assert page.locator(".slide.on .js-plotly-plot").count() == 2
    assert asked == []
    assert faults == []


def test_the_file_prints_one_slide_a_page(new_page, deck_file):
    page = new_page(offline=True)
    page.goto(deck_file.as_uri())
    page.wait_for_timeout(800)
    pdf = page.pdf(prefer_css_page_size=True, print_background=True)
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) == 7
