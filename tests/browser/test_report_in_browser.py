"""The page in Chromium: what a person does with it, by mouse and by keyboard.

Needs chromium and chromedriver; run with `-m browser`.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from support.packages import needs
from support.report_runs import Sketch, write_runs

from harness.present.page.page import PageServer, page_data, page_text
from harness.storage.find_runs import run_folders

pytestmark = [pytest.mark.browser, needs("selenium")]
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
HOSTILE = (
    "<script>window.hit = 1</script>",
    "</script><!-- <script>window.hit = 2//",
    "<img src=x onerror='window.hit = 3'>",
    "line\u2028separator and \u202eturned",
    "=HYPERLINK(1)",
    "nul \x00 and escape \x1b[31m",
    "y" * 1_000_000,
)
QUIET = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync --headless=new"
SILENT = "--disable-background-networking --disable-component-update --window-size=1280,1000"
Driver = Any  # selenium is imported where it is used


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    write_runs(folder, Sketch(samples=60, texts=HOSTILE))
    return folder


@pytest.fixture(scope="module")
def page(results: Path) -> str:
    path = results / "report.html"
    path.write_text(page_text(page_data(run_folders(results), results)), "utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    if CHROMIUM is None or DRIVER is None:
        pytest.skip("needs chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    profile = tmp_path_factory.mktemp("profile")
    for argument in (*QUIET.split(), *SILENT.split(), f"--user-data-dir={profile}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    made = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield made
    made.quit()


@pytest.fixture
def opened(driver: Driver, page: str) -> Iterator[Driver]:
    """The page, freshly opened; it must have asked nobody and complained of nothing at the end."""
    driver.get("about:blank")
    driver.get_log("browser")
    driver.get_log("performance")
    driver.get(page)
    ready(driver)
    yield driver
    assert driver.get_log("browser") == []
    assert [url for url in requests(driver) if not url.startswith(("file:", "data:"))] == []
    assert driver.execute_script("return window.hit") is None


def requests(driver: Driver) -> list[str]:
    messages = [json.loads(line["message"])["message"] for line in driver.get_log("performance")]
    return [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]


def ready(driver: Driver) -> None:
    wait(driver, "return document.documentElement.dataset.ready === 'yes'")


def wait(driver: Driver, script: str) -> Any:  # noqa: ANN401 - whatever the script returns
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(driver, 10).until(lambda d: d.execute_script(script))


def found(driver: Driver, css: str) -> list[Any]:
    return list(driver.find_elements("css selector", css))


def texts(driver: Driver, css: str) -> list[str]:
    return [one.get_property("textContent") for one in found(driver, css)]


def press(driver: Driver, keys: str) -> None:
    driver.switch_to.active_element.send_keys(keys)


def choose(driver: Driver, name: str, value: str) -> None:
    from selenium.webdriver.support.ui import Select

    Select(driver.find_element("css selector", f"#filters select[name={name}]")).select_by_value(
        value
    )


def test_filters_narrow_the_items_and_pages_turn(opened: Driver) -> None:
    assert texts(opened, "#count") == ["480 answers of 480, of 120 samples."]

    choose(opened, "task", "stress")
    choose(opened, "variant", "plain")
    assert texts(opened, "#count") == ["120 answers of 480, of 60 samples."]
    first = texts(opened, "#list .open")
    press(opened, "\ue00c")  # Escape: out of the list, where letters choose
    press(opened, "n")
    assert "Page 2 of 5" in texts(opened, "#pager")[0]
    assert texts(opened, "#list .open") != first
    choose(opened, "missing", "refused")
    assert set(texts(opened, "#list .open")) == {"s00036"}
    choose(opened, "missing", "")
    choose(opened, "judge", "choice")
    choose(opened, "verdict", "between")
    assert {"choice: between: 0.5"} <= set(texts(opened, "#list .chip"))
    before = len(found(opened, "#list .open"))
    choose(opened, "verdict", "")
    choose(opened, "split", "orders")
    assert len(found(opened, "#list .open")) == before


def test_an_item_shows_its_chain_both_orders_and_its_minimal_pair(opened: Driver) -> None:
    opened.get(opened.current_url.partition("#")[0] + "#items?task=stress&variant=think")
    ready(opened)
    found(opened, "#list .open")[0].click()

    detail = texts(opened, "#list .detail")[0]
    assert detail.index("Step 1 of 2: thought") < detail.index("Step 2 of 2: response")
    assert "What choice was asked, in 2 orders" in detail
    assert detail.count("Which is nearer?") == 2
    pair = texts(opened, "#list details[open] .card mark")
    assert len(pair) == 3
    assert len(set(pair)) == 3, "one turn, three stresses"


def test_hostile_texts_stay_text(opened: Driver) -> None:
    opened.get(
        opened.current_url.partition("#")[0] + "#items?task=stress&variant=plain&sample=s00001"
    )
    ready(opened)
    opened.execute_script("document.querySelector('#list .open').click()")

    assert HOSTILE[1] in texts(opened, "#list .detail")[0]
    assert found(opened, "#items img, #items script") == []


def test_a_long_answer_is_cut_until_it_is_asked_for(opened: Driver) -> None:
    opened.get(
        opened.current_url.partition("#")[0] + "#items?task=stress&variant=plain&sample=s00006"
    )
    ready(opened)
    opened.execute_script("document.querySelector('#list .open').click()")

    assert max(map(len, texts(opened, "#list .detail .text"))) < 5000
    opened.execute_script("document.querySelector('.main > :nth-child(2) button').click()")
    assert max(map(len, texts(opened, "#list .detail .text"))) == 1_000_000


def test_keys_move_open_and_close(opened: Driver) -> None:
    press(opened, "j")
    press(opened, "j")
    assert found(opened, "#list tr.here")[0].get_attribute("data-place") == "1"
    press(opened, "o")
    assert found(opened, "#list .here button")[0].get_attribute("aria-expanded") == "true"
    press(opened, "j")
    assert found(opened, "#list tr.here")[0].get_attribute("data-place") == "2"
    assert len(found(opened, "#list .detail")) == 1
    press(opened, "\ue00c")  # Escape
    assert found(opened, "#list .detail") == []
    press(opened, "k")
    assert found(opened, "#list tr.here")[0].get_attribute("data-place") == "1"
    press(opened, "f")
    assert opened.switch_to.active_element.get_attribute("id") == "flips-title"
    press(opened, "/")
    assert opened.switch_to.active_element.get_attribute("name") == "q"
    press(opened, "jkt")
    assert found(opened, "#filters input")[0].get_property("value") == "jkt"


def test_the_grid_shows_flips_and_opens_their_items(opened: Driver) -> None:
    press(opened, "f")

    rows = found(opened, "#flip-table tbody tr")
    assert rows
    for row in rows:
        assert len({cell.text for cell in row.find_elements("css selector", "td")}) > 1
    sample = rows[0].find_element("css selector", "th").text.split("\n")[0]
    opened.execute_script("arguments[0].click()", rows[0].find_element("css selector", "button"))
    assert texts(opened, "#list .here .open") == [sample]
    assert len(found(opened, "#list .detail")) == 1


def test_a_number_opens_its_recipe_and_leads_to_its_items(opened: Driver) -> None:
    opened.execute_script("document.querySelector('#leaderboard tbody tr .num').click()")
    dialog = texts(opened, "#why")[0]
    assert "missing: none" in dialog
    assert "data:sample:d1f3,all" in dialog
    found(opened, "#why a")[0].click()
    wait(opened, "return location.hash.startsWith('#items?')")
    assert texts(opened, "#count") == ["120 answers of 480, of 60 samples."]

    press(opened, "t")
    opened.execute_script(
        "[...document.querySelectorAll('#differences tbody .num')].find("
        "b => b.textContent !== '0' && b.getAttribute('aria-label').includes('A only right'))"
        ".click()"
    )
    count = int(texts(opened, "#why p")[0].split()[0])
    assert count > 0
    found(opened, "#why a")[0].click()
    wait(opened, "return location.hash.includes('set=')")
    assert len(found(opened, "#list .open")) > 0


def test_tables_sort_with_what_is_missing_last(opened: Driver) -> None:
    names = "#leaderboard .table:first-of-type tbody th"
    first = texts(opened, names)
    head = next(h for h in found(opened, "#leaderboard th button") if h.text == "accuracy")

    opened.execute_script("arguments[0].click()", head)
    opened.execute_script("arguments[0].click()", head)

    assert texts(opened, names)[:2] == first[:2][::-1]
    sort = opened.execute_script("return arguments[0].parentNode.ariaSort", head)
    assert sort == "ascending"


def test_a_table_is_copied_as_latex_and_as_csv(opened: Driver) -> None:
    opened.execute_script(
        "window.kept = []; navigator.clipboard.writeText = async (t) => { kept.push(t); }"
    )
    for button in found(opened, "#leaderboard .copy button")[:2]:
        opened.execute_script("arguments[0].click()", button)
    latex, table = wait(opened, "return kept.length === 2 && kept")

    assert r"\begin{tabular}{rrlrrrr}" in latex
    assert r"1 & 1 & alpha & " in latex
    assert (
        table.splitlines()[0]
        == "rank,may be,model,accuracy,accuracy low,accuracy high,chance,n,missing"
    )
    assert table.splitlines()[1].startswith("1,1,alpha,0.")
    assert texts(opened, "#said") == ["CSV copied"]


def test_names_are_copied_as_latex_that_prints_them(driver: Driver, tmp_path: Path) -> None:
    write_runs(tmp_path, Sketch(models=(("[2pt]|*a\u0107\u6f22", 0.9), ("*b", 0.4))))
    path = tmp_path / "report.html"
    path.write_text(page_text(page_data(run_folders(tmp_path), tmp_path)), "utf-8")
    driver.get(path.as_uri())
    ready(driver)
    driver.execute_script(
        "window.kept = []; navigator.clipboard.writeText = async (t) => { kept.push(t); };"
        "document.querySelector('#phenomena .copy button').click()"
    )
    [text] = wait(driver, "return kept.length === 1 && kept")

    rows = [line for line in text.splitlines() if " & " in line]
    assert rows[1].startswith("{[}2pt{]}\\textbar{}{*}a\u0107{[}U+6F22{]} & ")
    assert rows[2].startswith("{*}b & ")


def test_a_control_that_is_drawn_again_keeps_the_focus(opened: Driver) -> None:
    name = "return document.activeElement.name || document.activeElement.textContent"
    found(opened, "#filters select[name=task]")[0].send_keys("s")
    wait(opened, "return location.hash.includes('task=')")
    assert opened.execute_script(name) == "task"
    found(opened, "#pager-below button")[2].send_keys("\ue007")  # Enter on "Next"
    found(opened, "#pager-below button")[2].send_keys("\ue007")
    wait(opened, "return document.querySelector('#pager').textContent.includes('Page 3')")
    assert opened.execute_script(name) == "Next"
    found(opened, "#pager-below button")[3].send_keys("\ue007")
    assert opened.execute_script(name) == "Previous", "the last page has no next"


def test_dark_light_and_as_the_system(opened: Driver) -> None:
    back = "return getComputedStyle(document.body).backgroundColor"
    light = opened.execute_script(back)
    press(opened, "t")
    dark = opened.execute_script(back)

    assert dark != light
    for scheme, wanted in (("dark", dark), ("light", light)):
        opened.execute_script("delete document.documentElement.dataset.theme")
        feature = {"name": "prefers-color-scheme", "value": scheme}
        opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        assert opened.execute_script(back) == wanted


def test_the_top_draws_a_dot_a_model_and_the_end_says_what_was_asked(opened: Driver) -> None:
    dots = texts(opened, "#headline .dots tbody th")
    assert dots == ["alpha", "beta"] * 2
    assert len(found(opened, "#headline .dots circle.dot")) == len(dots)
    assert texts(opened, "#headline .dots text.chance") == ["chance"] * 2
    heads = texts(opened, "main h2")
    assert (heads[0], heads[-3:]) == ("Result", ["Items", "What was asked", "Cost"])


def test_the_page_fits_a_telephone(opened: Driver) -> None:
    size = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    press(opened, "j")
    press(opened, "o")

    assert opened.execute_script("return document.documentElement.scrollWidth") <= 390
    assert opened.execute_script(
        "const box = document.querySelector('#differences .scroll'); box.scrollLeft = 200;"
        "const left = box.getBoundingClientRect().left, name = box.querySelector('tbody th');"
        "return box.scrollLeft > 0 && Math.abs(name.getBoundingClientRect().left - left) < 1"
    ), "the model stays where a table is scrolled"
    opened.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_everything_that_can_be_pressed_has_a_name(opened: Driver) -> None:
    press(opened, "j")
    press(opened, "o")
    nameless = opened.execute_script(
        "return [...document.querySelectorAll('button, a, select, input, summary, [role=region]')]"
        ".filter(e => !(e.textContent || e.getAttribute('aria-label') || (e.labels || []).length)"
        " || e.tagName === 'SELECT' && !e.labels.length).map(e => e.outerHTML.slice(0, 80))"
    )

    assert nameless == []
    assert opened.execute_script("return document.querySelectorAll('h1').length") == 1


def test_the_live_page_shows_a_run_when_it_ends(driver: Driver, tmp_path: Path) -> None:
    with PageServer(0, tmp_path, lambda: run_folders(tmp_path)) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        driver.get_log("browser")
        driver.get_log("performance")
        driver.get(server.url)
        wait(driver, "return document.querySelector('#loading').textContent.includes('No run')")

        write_runs(tmp_path, Sketch(samples=6))

        ready(driver)
        wait(driver, "return document.querySelector('#live').textContent.includes('4 runs')")
        assert texts(driver, "#title") == ["4 runs of posed, stress"]
        asked = requests(driver)
        driver.get("about:blank")
        server.shutdown()
        thread.join()

    assert driver.get_log("browser") == []
    assert [url for url in asked if not url.startswith((server.url, "data:"))] == []
