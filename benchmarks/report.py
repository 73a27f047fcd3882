"""The page of `harness report`: seconds and memory to make it, its size, when it can be used.

Writes made-up runs of so many answers (ten models, two variants, two decodings; every answer of
about 40 words is read by a judge that was asked in two orders, whose prompts are in the calls
ledger), makes the page in a process of its own, and opens it in Chromium where that is at hand.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

MODELS = tuple((f"model-{place}", 0.9 - 0.05 * place) for place in range(10))
ANSWERS_A_SAMPLE = 4 * len(MODELS)  # two variants and two decodings of each model
QUIET = "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync"
SILENT = "--disable-background-networking --disable-component-update --window-size=1280,1000"
READY = "return document.documentElement.dataset.ready === 'yes' && performance.now()"


@dataclass(frozen=True)
class Made:
    """A page that was made: seconds, the most megabytes held, megabytes of the file."""

    seconds: float
    held: float
    size: float


def write(results: Path, answers: int) -> int:
    """Write the runs; the number of answers in them."""
    from support.report_runs import Sketch, write_runs

    samples = max(1, round(answers / ANSWERS_A_SAMPLE))
    decodings = ("T0.3", "T0.5")
    write_runs(
        results, Sketch(samples, MODELS, decodings, words=40, context=120, has_choices=False)
    )
    return samples * ANSWERS_A_SAMPLE


def make(results: Path, page: Path) -> Made:
    """Make the page in a process of its own."""
    command = [sys.executable, "-m", "harness", "report", "--results", str(results)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    began = time.monotonic()
    with subprocess.Popen([*command, "-o", str(page)], env=environment, stdout=-3) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - began
    if process.returncode:
        raise SystemExit(f"harness report ended with {process.returncode}")
    return Made(seconds, usage.ru_maxrss / 1024, page.stat().st_size / 2**20)


def usable(page: Path) -> dict[str, float] | None:
    """Seconds until the page can be used, and of a filter and of a turned page; None without it."""
    if shutil.which("chromedriver") is None or shutil.which("chromium") is None:
        return None
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.support.ui import WebDriverWait

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    with tempfile.TemporaryDirectory() as profile:
        for argument in (*QUIET.split(), *SILENT.split(), f"--user-data-dir={profile}"):
            options.add_argument(argument)
        service = Service(str(shutil.which("chromedriver")))
        driver: Any = webdriver.Chrome(options=options, service=service)
        try:
            driver.get(page.as_uri())
            ready = WebDriverWait(driver, 60).until(lambda d: d.execute_script(READY)) / 1000
            actions = {name: driver.execute_script(script) / 1000 for name, script in STEPS.items()}
        finally:
            driver.quit()
    return {"usable": ready, **actions}


_TIMED = "const t = performance.now(); {}; document.body.offsetHeight; return performance.now() - t"
STEPS = {
    name: _TIMED.replace("{}", script)
    for name, script in {
        "filter": "const s = document.querySelector('#filters [name=verdict]'); s.value = 'wrong'; "
        "s.dispatchEvent(new Event('change'))",
        "flips of all": "const s = document.querySelector('#filters [name=split]'); "
        "s.value = 'models'; s.dispatchEvent(new Event('change'))",
        "open": "document.querySelector('#list .open').click()",
    }.items()
}


def main() -> None:
    """Print a line for each number of answers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", default="2085,20000", help="numbers, comma-separated")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print("answers  seconds  MB held  MB file  in the browser, seconds")
    for wanted in map(int, options.answers.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            results = Path(folder) / "results"
            answers = write(results, wanted)
            page = Path(folder) / "report.html"
            rounds = [make(results, page) for _ in range(options.rounds)]
            seconds = statistics.median(one.seconds for one in rounds)
            held, size = max(one.held for one in rounds), rounds[-1].size
            shown = usable(page) or {}
            times = ", ".join(f"{name} {value:.2f}" for name, value in shown.items())
            print(
                f"{answers:7}  {seconds:7.1f}  {held:7.0f}  {size:7.2f}  {times or 'no Chromium'}"
            )


if __name__ == "__main__":
    main()
