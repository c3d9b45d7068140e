"""The running app in a real browser: links, navigation, settings, width, themes, and no foreign host."""

import json
from urllib.parse import parse_qs, urlparse

import pytest

from tests.browser.conftest import ROOT, settled, start_server

FIGURE = "() => JSON.stringify(document.querySelector('.js-plotly-plot').data.map(t => [t.name, t.y]))"
PAGES = ("", "topic_map", "method?method=bass", "claims")


def query(page):
    return {k: v[0] for k, v in parse_qs(urlparse(page.url).query).items()}


def visible_chart(page):
    page.wait_for_selector(".js-plotly-plot .main-svg")
    settled(page)
    return page.evaluate(FIGURE)


def title(page):
    return page.locator("h1").first.inner_text().strip()


def test_the_very_first_request_may_be_a_deep_link(new_page):
    process, address = start_server()
    try:
        page = new_page()
        page.goto(f"{address}/method?method=event_admm&split=iid")
        page.wait_for_selector("h1")
        settled(page)
        assert title(page) == "Event-based ADMM"
        assert query(page) == {"method": "event_admm", "split": "iid"}
        assert page.get_by_text("Claims", exact=True).first.is_visible()
    finally:
        process.terminate()
        process.wait(10)


def test_overview_leads_to_all_38(new_page, address):
    page = new_page()
    page.goto(address)
    page.wait_for_selector("h1")
    settled(page)
    runs = page.get_by_role("link", name="Run", exact=True).count()
    waiting = page.locator("[data-testid='stPageLink']", has_text="○").count()
    assert runs + waiting == 38
    page.get_by_role("link", name="Run", exact=True).first.click()
    page.wait_for_url("**/method?method=*")
    settled(page)
    assert query(page)["method"]


def test_from_the_map_to_a_shared_figure(new_page, address):
    page = new_page()
    page.goto(f"{address}/topic_map")
    page.wait_for_selector(".js-plotly-plot .main-svg")
    settled(page)
    box = page.locator(".st-key-wide .js-plotly-plot").bounding_box()
    spot = page.evaluate(
        """() => { const p = document.querySelector('.st-key-wide .js-plotly-plot');
        const t = p._fullData.find(t => t.name === 'papers'); const l = p._fullLayout;
        const sizes = t.marker.size; const i = Array.from(sizes).indexOf(13);
        return [l.xaxis.l2p(t.x[i]) + l._size.l, l.yaxis.l2p(t.y[i]) + l._size.t]; }"""
    )
    page.mouse.click(box["x"] + spot[0], box["y"] + spot[1])
    page.wait_for_url("**/topic_map?abstract=*")
    settled(page)
    page.get_by_role("link", name="Open the demo").click()
    page.wait_for_url("**/method?method=*")
    settled(page)
    before = visible_chart(page)
    page.get_by_role("tab", name="Settings").click()
    slider = page.get_by_role("slider").first
    slider.focus()
    slider.press("ArrowRight")
    page.wait_for_function("() => new URL(location.href).searchParams.size > 1")
    after = visible_chart(page)
    assert after != before
    other = new_page()
    other.goto(page.url)
    other.wait_for_selector("h1")
    assert json.loads(visible_chart(other)) == json.loads(after)
    assert query(other) == query(page)


def test_presets_neighbours_and_history(new_page, address):
    page = new_page()
    page.goto(f"{address}/method?method=bass")
    page.wait_for_selector("h1")
    settled(page)
    default = visible_chart(page)
    page.get_by_role("radio", name="Break it: unrelated agents").click()
    page.wait_for_url("**structure=unrelated*")
    assert visible_chart(page) != default
    page.get_by_role("button", name="›").click()
    page.wait_for_function("() => !location.href.includes('method=bass')")
    settled(page)
    page.go_back()
    page.wait_for_url("**structure=unrelated*")
    settled(page)
    assert title(page) == "BASS"
    assert page.get_by_role("radio", name="Break it: unrelated agents").get_attribute("aria-checked") == "true"
    page.get_by_role("link", name="Claims", exact=True).click()
    page.wait_for_url("**/claims")
    settled(page)
    page.go_back()
    page.wait_for_url("**structure=unrelated*")
    settled(page)
    assert title(page) == "BASS"
    assert query(page)["structure"] == "unrelated"


def test_wrong_values_in_a_link_are_named(new_page, address):
    page = new_page()
    page.goto(f"{address}/method?method=bass&agents=99&gone=1")
    page.wait_for_selector("h1")
    settled(page)
    assert page.get_by_text("agents cannot be").is_visible()
    assert page.get_by_text("has no setting").is_visible()
    assert query(page) == {"method": "bass"}


def test_claims_can_be_checked_at_any_settings_and_stopped(new_page, address):
    page = new_page()
    page.goto(f"{address}/method?method=robust_coresets&epsilon=0.35")
    page.wait_for_selector("h1")
    settled(page)
    assert page.get_by_text("not at your settings but at the default ones").is_visible()
    page.get_by_role("tab", name="Settings").click()
    page.get_by_role("button", name="Check the claims here").click()
    page.get_by_text("computed just now").wait_for()
    assert query(page) == {"method": "robust_coresets", "epsilon": "0.35"}


def test_a_claims_table_and_its_filter(new_page, address):
    page = new_page()
    page.goto(f"{address}/claims")
    page.wait_for_selector(".js-plotly-plot .main-svg")
    settled(page)
    page.get_by_role("radio", name="Table").click()
    page.wait_for_selector("[data-testid='stDataFrame']")
    page.get_by_role("radio", name="Forest").click()
    page.get_by_placeholder("Filter claims").fill("zzzz")
    page.keyboard.press("Enter")
    page.get_by_text("No claim passes these filters.").wait_for()


@pytest.mark.parametrize("width", [400, 760, 1400, 1920])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_is_wider_than_the_screen(new_page, address, width, scheme):
    page = new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    for path in PAGES:
        page.goto(f"{address}/{path}")
        page.wait_for_selector("[data-testid='stMainBlockContainer']")
        settled(page)
        over = page.evaluate(
            "() => { const m = document.querySelector('[data-testid=stMain]'); return m.scrollWidth - m.clientWidth }"
        )
        assert over <= 1, path


def test_nothing_is_asked_of_other_hosts(new_page, address):
    page, hosts = new_page(), set()
    page.on("request", lambda r: hosts.add(urlparse(r.url).hostname) if r.url.startswith("http") else None)
    for path in PAGES:
        page.goto(f"{address}/{path}")
        page.wait_for_selector("[data-testid='stMainBlockContainer']")
        settled(page)
    assert hosts == {"localhost"}


def test_every_formula_of_every_method_renders(new_page, tmp_path):
    script = tmp_path / "formulas.py"
    script.write_text(
        "import sys\nsys.path.insert(0, " + repr(str(ROOT)) + ")\nimport streamlit as st\n"
        "from core.demos import catalogue\nfrom pages.parts import library\n"
        "for demo in catalogue().values():\n    st.markdown(demo.how_it_works)\n    st.markdown(demo.simplified)\n"
        "for abstract in library.collection().abstracts:\n    st.markdown(abstract.display)\nst.markdown('# done')\n",
        encoding="utf-8",
    )
    process, address = start_server(script=str(script))
    try:
        page = new_page()
        page.goto(address)
        page.get_by_text("done", exact=True).wait_for()
        page.wait_for_timeout(1500)
        body = page.locator("[data-testid='stMainBlockContainer']")
        assert body.locator(".katex").count() > 100
        assert body.locator(".katex-error").all_inner_texts() == []
        assert "$$" not in body.inner_text()
        assert "\\\\frac" not in body.inner_text()
    finally:
        process.terminate()
        process.wait(10)


def test_a_hostile_abstract_is_only_text(new_page, tmp_path):
    script = tmp_path / "hostile.py"
    script.write_text(
        "import sys\nsys.path.insert(0, " + repr(str(ROOT)) + ")\nimport streamlit as st\n"
        "from core.abstracts import escape, make_abstract\n"
        "text = 'We study <script>window.hacked=1</script> and [x](javascript:window.hacked=2) and "
        "<img src=x onerror=window.hacked=3> and ![a](https://example.org/a.png) :smile: ~~gone~~ `code`.'\n"
        "st.markdown(make_abstract(text).display)\nst.markdown(escape(text))\nst.markdown('# done')\n",
        encoding="utf-8",
    )
    process, address = start_server(script=str(script))
    try:
        page, hosts = new_page(), set()
        page.on("request", lambda r: hosts.add(urlparse(r.url).hostname))
        page.goto(address)
        page.get_by_text("done").wait_for()
        page.wait_for_timeout(500)
        body = page.locator("[data-testid='stMainBlockContainer']")
        assert page.evaluate("() => window.hacked") is None
        assert body.locator("img, script, del").count() == 0
        assert body.locator("a[href^='javascript']").count() == 0
        assert "<script>" in body.inner_text()
        assert "example.org" not in {h for h in hosts if h}
    finally:
        process.terminate()
        process.wait(10)


def test_a_slider_moved_ten_times_ends_at_the_last_setting(new_page, address):
    page = new_page()
    page.goto(f"{address}/method?method=timing&seed=7")
    page.wait_for_selector("h1")
    settled(page)
    page.get_by_role("tab", name="Settings").click()
    slider = page.get_by_role("slider").first
    slider.focus()
    for _ in range(10):
        slider.press("ArrowRight")
        page.wait_for_timeout(150)
    page.wait_for_function("() => new URL(location.href).searchParams.get('nseg') === '12'")
    settled(page)
    shown = visible_chart(page)
    other = new_page()
    other.goto(page.url)
    other.wait_for_selector("h1")
    assert json.loads(visible_chart(other)) == json.loads(shown)
