"""The page in a real browser: what is written in it is what a reader sees, hears of and can play."""

import pytest

from holdfast.report.gather import gather

pytestmark = pytest.mark.browser


# Of a cell's ground and text, by the formula of WCAG; a canvas turns any CSS colour into numbers.
LUMINANCE = """cell => {
    const probe = document.createElement('canvas').getContext('2d'), style = getComputedStyle(cell);
    const linear = v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    return [style.backgroundColor, style.color].map(colour => {
        probe.fillStyle = colour;
        probe.fillRect(0, 0, 1, 1);
        const [r, g, b] = [...probe.getImageData(0, 0, 1, 1).data].map(v => linear(v / 255));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    });
}"""


@pytest.fixture
def opened(browser, page):
    """A function that opens the page and notes every complaint and every request beyond the page itself."""
    contexts = []

    def open_page(width=1280, scheme="light"):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        tab = context.new_page()
        tab.complaints, tab.requests = [], []
        tab.on("console", lambda m: tab.complaints.append(m.text) if m.type in ("error", "warning") else None)
        tab.on("pageerror", lambda e: tab.complaints.append(str(e)))
        tab.on("request", lambda r: tab.requests.append(r.url) if not r.url.startswith("data:") else None)
        tab.goto(page.as_uri())
        tab.wait_for_load_state("load")
        return tab

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_opens_without_complaint_and_fits(opened, page, width, scheme):
    tab = opened(width, scheme)
    assert tab.complaints == []
    assert tab.requests == [page.as_uri()]
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    dark = tab.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    assert dark == (scheme == "dark")


def test_cells_carry_the_right_numbers(opened, folders):
    tab = opened()
    for run in gather(list(folders.values())):
        table = tab.get_by_role("grid", name=f"Scores of {run.name}", exact=True)
        for row, stage in zip(table.locator("tbody tr").all(), run.rows, strict=True):
            for i, cell in enumerate(row.locator("td").all(), 1):
                scores = run.matrix.cells.get((i, stage))
                if scores:
                    assert cell.locator(".value").inner_text() == f"{sum(scores) / len(scores):.1f}"
                    assert f"{len(scores)} trials" in cell.locator(".more").text_content()
                else:
                    assert cell.locator(".value").count() == 0


def test_colour_follows_the_score_and_text_stays_readable(opened):
    for scheme in ("light", "dark"):
        tab = opened(scheme=scheme)
        grounds = {}
        for cell in tab.get_by_role("grid", name="Scores of sequential", exact=True).locator("td:not(.empty)").all():
            ground, text = cell.evaluate(LUMINANCE)
            assert (max(ground, text) + 0.05) / (min(ground, text) + 0.05) > 4.5
            grounds[float(cell.locator(".value").inner_text())] = ground
        ordered = [grounds[score] for score in sorted(grounds)]
        assert ordered == sorted(ordered, reverse=scheme == "light")


def test_keyboard_walks_the_cells_and_shows_what_they_hold(opened):
    tab = opened()
    table = tab.get_by_role("grid", name="Scores of er", exact=True)
    table.locator("td").first.focus()
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("ArrowRight")
    assert (
        tab.evaluate("document.activeElement.querySelector('.value').textContent")
        == table.locator("tbody tr:nth-child(2) td:nth-of-type(2) .value").inner_text()
    )
    tip = tab.locator("#tip")
    assert tip.is_visible()
    assert "8 trials, 95" in tip.inner_text()
    assert "grasped" in tip.inner_text()
    tab.keyboard.press("Escape")
    assert tip.is_hidden()


def test_a_video_plays(opened):
    tab = opened()
    video = tab.locator("video").first
    video.scroll_into_view_if_needed()
    video.evaluate("video => video.play()")
    tab.wait_for_function("() => document.querySelector('video').currentTime > 0.2", timeout=60_000)
    assert video.evaluate("video => video.videoWidth") == 64


def test_attempts_at_one_layout_play_in_step(opened):
    tab = opened()
    group = tab.locator(".together").first
    films, button = group.locator("video"), group.get_by_role("button")

    def wait_for(condition):
        films = "[...document.querySelector('.together').querySelectorAll('video')]"
        tab.wait_for_function(f"() => {{ const [one, other] = {films}; return {condition}; }}", timeout=60_000)

    assert group.locator("figcaption .run").all_inner_texts() == ["sequential", "er"]
    assert button.inner_text() == "Play together"
    button.click()
    wait_for("one.currentTime > 0.2 && other.currentTime > 0.2")
    films.first.evaluate("film => film.pause()")
    wait_for("one.paused && other.paused")
    films.nth(1).evaluate("film => { film.currentTime = 1.5; }")
    wait_for("Math.abs(one.currentTime - 1.5) < 0.05")
    films.nth(1).evaluate("film => film.play()")
    wait_for("one.ended && other.ended")
    assert button.inner_text() == "Play together"
    button.click()
    wait_for("!one.paused && !other.paused && one.currentTime < 1.4 && other.currentTime < 1.4")
    assert tab.complaints == []


def test_a_video_shows_a_picture_before_it_plays(opened):
    tab = opened()
    for video in tab.locator("details[open] video").all():
        shape = video.evaluate("""async film => {
            const picture = new Image();
            picture.src = film.poster;
            await picture.decode();
            return [picture.naturalWidth, picture.naturalHeight];
        }""")
        assert shape == [640, 640]


def test_the_controls_of_a_video_cover_it_only_while_it_is_used(opened):
    tab = opened()
    video = tab.locator("video").first
    state = "film => [film.controls, film.parentElement.classList.contains('still')]"
    assert video.evaluate(state) == [False, True]
    video.hover()
    assert video.evaluate(state) == [True, False]
    tab.locator("h1").hover()
    assert video.evaluate(state) == [False, True]
    video.focus()
    assert video.evaluate(state) == [True, False]


def test_a_tap_on_a_video_plays_it(browser, page):
    context = browser.new_context(viewport={"width": 390, "height": 900}, has_touch=True)
    tab = context.new_page()
    tab.goto(page.as_uri())
    tab.locator("video").first.tap()
    time = "document.querySelector('video').currentTime"
    played = tab.wait_for_function(f"() => {time} > 0.2 && {time}", timeout=60_000)
    assert played.json_value() > 0.2
    context.close()


def test_the_page_starts_with_what_was_found(opened):
    tab = opened()
    assert tab.title() == "sequential 26.7, er 89.4, finetune 80.3: average score over 5 tasks · Holdfast report"
    first = tab.locator("header .finding")
    assert first.inner_text().startswith("er scores 62.6 points more than sequential on average over 5 tasks")
    assert "95 % interval +" in first.inner_text()
    assert first.bounding_box()["y"] < 200


def test_theme_can_be_chosen_and_is_kept(opened):
    tab = opened()
    # A busy browser may lose what a page stores right before it is left: the tab's name stands in for its storage.
    tab.add_init_script("""Object.defineProperty(window, "localStorage", {value: {
        getItem: (key) => JSON.parse(window.name || "{}")[key] ?? null,
        setItem: (key, value) => { window.name = JSON.stringify({[key]: value}); },
    }})""")
    tab.reload()
    tab.get_by_role("button", name="Switch to dark colours").click()
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(16, 22, 29)"
    tab.reload()
    assert tab.evaluate("document.documentElement.dataset.theme") == "dark"
    tab.emulate_media(media="print")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_published_figures_are_marked_as_those_of_a_real_robot(opened):
    tab = opened()
    rows = tab.locator(".published tr")
    assert "real robot" in rows.first.inner_text()
    er = [cell.inner_text() for cell in rows.nth(4).locator("td").all()]
    assert er == ["100.0", "95.0", "100.0", "96.0", "95.0", "97.2", "+1.5", "+11.4"]
