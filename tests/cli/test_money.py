"""What was paid, and what may have to be, is told by run, its files, the dry run and the table."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from support.each import each, rest_slow
from support.stub_script import Script
from support.stub_server import StubServer
from support.toy import DECODINGS, FILES, PRICES, SAMPLES, Lines, Toy

from harness.cli import main
from harness.cli.run_report import cost_line
from harness.parts import Usage
from harness.present.screen import usd
from harness.storage.runs import Cost, Costs, ScoreRow, read_table

ANSWERS = SAMPLES * DECODINGS
JUDGED = ("--variant", "base", "--judge", "choice", "--judge", "near")


@pytest.fixture
def stub(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> Iterator[StubServer]:
    toy.write("configs/prices.yaml", PRICES)
    with StubServer(Script(replies={"Judge": ("1",)})) as server:
        monkeypatch.setenv("HARNESS_SERVER_URL", server.url)
        yield server


def stored(toy: Toy, model: str) -> list[float]:
    """What each stored call of a model cost."""
    files = (toy.results / "calls" / model).glob("*.jsonl")
    lines = [line for file in files for line in file.read_text("utf-8").splitlines()]
    return [json.loads(line)["response"]["usage"]["cost_usd"] for line in lines]


def overall(toy: Toy) -> dict[str, ScoreRow]:
    """The row of all groups and decodings, by judge."""
    rows = [row for row in read_table(toy.runs()[0] / "scores.csv") if row.score.group == "all"]
    return {
        r.score.judge: r
        for r in rows
        if (r.score.decoding, r.score.metric) == ("T0+0.5", "accuracy")
    }


def test_a_run_its_json_and_its_rows_tell_what_answers_and_judge_cost(
    toy: Toy, stub: StubServer, capsys: Lines
) -> None:
    toy.run(*JUDGED, model="alpha")

    answers, replies = sum(stored(toy, "alpha")), sum(stored(toy, "umpire"))
    both = usd(answers + replies)
    told = f"cost: {both} USD: answers {usd(answers)}, judge choice {usd(replies)}"
    assert told in capsys.readouterr().out
    found = {judge: row.cost_usd for judge, row in overall(toy).items()}
    assert found == pytest.approx({"near": answers, "choice": answers + replies})
    toy.run(*JUDGED, "--json", model="alpha")
    costs = json.loads(capsys.readouterr().out)["costs"]
    assert costs == json.loads((toy.runs()[0] / "run.json").read_text())["costs"]
    assert costs["answers"]["calls"] == ANSWERS
    assert costs["answers"]["cost_usd"] == pytest.approx(answers)


def test_a_call_that_broke_off_leaves_the_cost_of_its_run_unknown_and_is_told(
    toy: Toy, stub: StubServer, capsys: Lines
) -> None:
    stub.script = replace(stub.script, faults={"Judge": (), "number 3": ("cut",)})

    toy.run(*JUDGED, model="alpha")

    told, answers = capsys.readouterr().out, sum(stored(toy, "alpha"))
    costs = json.loads((toy.runs()[0] / "run.json").read_text())["costs"]["answers"]
    assert f"answers at least {usd(answers)}, judge choice " in told
    assert f"; {costs['unanswered']} calls broke off without an answer" in told
    assert (costs["cost_usd"], costs["reported"]["cost_usd"]) == (None, pytest.approx(answers))
    assert {row.cost_usd for row in overall(toy).values()} == {None}


def test_a_copied_file_of_a_model_pays_for_nothing_again(
    toy: Toy, stub: StubServer, capsys: Lines
) -> None:
    text = (toy.home / "configs/models/alpha.yaml").read_text("utf-8")
    toy.write("configs/models/copied.yaml", f"{text}\nconcurrency: 2\n")
    toy.run("--variant", "base", "--judge", "near", "--limit", "4", model="alpha")
    count = stub.stats()["requests"]

    toy.run("--variant", "base", "--judge", "near", "--limit", "4", "--dry-run", model="copied")
    assert "nothing to ask: all 8 calls are stored" in capsys.readouterr().out
    toy.run("--variant", "base", "--judge", "near", "--limit", "4", model="copied")
    said = " ".join(capsys.readouterr().err.split())
    assert "8 calls of copied are stored under alpha, the same model, and not made again" in said
    assert stub.stats()["requests"] == count
    assert stored(toy, "copied") == stored(toy, "alpha") != []
    toy.run("--variant", "base", "--judge", "near", "--limit", "5", model="copied")
    assert stub.stats()["requests"] == count + 2

    # Another server of this machine may call its model alike; damage elsewhere is no matter.
    toy.write("configs/models/other.yaml", text.replace("base_url_env", "#"))
    calls = toy.results / "calls"
    (calls / "torn").mkdir()
    (calls / "torn/1.jsonl").write_text('{"key": \nfoo\n')
    (calls / ".DS_Store").write_text("")
    of = ("--variant", "base", "--judge", "near", "--limit", "4", "--dry-run")
    assert toy.run(*of, model="other") == 0
    assert "nothing to ask" not in capsys.readouterr().out


def test_calls_refused_by_a_status_cost_nothing(toy: Toy, stub: StubServer, capsys: Lines) -> None:
    stub.script = replace(stub.script, faults={"": ("400",)})
    toy.run("--variant", "base", model="alpha")

    assert set(stored(toy, "alpha")) == {0.0}
    assert toy.run("--variant", "base", "--budget", "1e-9", model="alpha") == 130
    assert "bring the 0.0000 USD spent above" in capsys.readouterr().err


def test_a_run_stopped_by_its_budget_and_resumed_ends_in_the_bytes_of_one_that_was_not(
    toy: Toy, stub: StubServer, capsys: Lines
) -> None:
    codes = [toy.run(*JUDGED, "--budget", cap, model="alpha") for cap in ("0.0005", "0.006", "1")]
    resumed, requests = toy.bytes(), stub.stats()["requests"]

    assert codes == [130, 130, 0]
    assert "raise the budget and repeat the command to go on" in capsys.readouterr().err
    assert requests == stub.stats()["distinct"]
    (toy.results / "runs").rename(toy.folder / "away")
    toy.run(*JUDGED, model="alpha")
    assert toy.bytes() == resumed


def test_a_budget_counts_what_judges_were_told_dry_and_before_the_first_new_answer(
    toy: Toy, stub: StubServer, capsys: Lines
) -> None:
    toy.run(*JUDGED, model="alpha")
    replies = sum(stored(toy, "umpire"))
    spent, requests = sum(stored(toy, "alpha")) + replies, stub.stats()["requests"]
    told = f"stored calls have cost {usd(spent)} USD, and the others cost at most 0: within"
    wider = ("--variant", "base,think", *JUDGED[2:])

    toy.run(*JUDGED, "--dry-run", "--budget", "1", model="alpha")
    assert told in capsys.readouterr().out
    toy.main("judge", str(toy.runs()[0]), "--judge", "choice", "--dry-run", "--budget", "1")
    assert f"{usd(replies)} USD, and the others" in capsys.readouterr().out
    assert toy.run(*wider, "--budget", str(spent), model="alpha") == 130
    assert stub.stats()["requests"] == requests


def test_a_budget_counts_what_is_stored_of_all_models_at_first(toy: Toy, stub: StubServer) -> None:
    toy.write("configs/prices.yaml", PRICES.replace("umpire:", "beta:"))
    toy.run("--variant", "base", model="beta")
    spent, requests = sum(stored(toy, "beta")), stub.stats()["requests"]

    assert toy.run("--variant", "base", "--budget", str(spent), model="alpha,beta") == 130
    assert stub.stats()["requests"] == requests


def test_a_budget_counts_what_judges_were_told_before_any_asks(toy: Toy, stub: StubServer) -> None:
    for name in ("aside", "choice"):
        toy.write(f"configs/judges/{name}.yaml", FILES["configs/judges/choice.yaml"])
    toy.edit("configs/judges/aside.yaml", "max_tokens: 4", "max_tokens: 5")
    toy.run(*JUDGED, model="alpha")
    spent, requests = sum(stored(toy, "umpire")), stub.stats()["requests"]
    judges = ("--judge", "aside", "--judge", "choice")

    assert toy.main("judge", str(toy.runs()[0]), *judges, "--budget", str(spent)) == 130
    assert stub.stats()["requests"] == requests


def test_what_was_refused_stands_at_no_further_cost_until_all_is_to_be_asked_again(
    toy: Toy, stub: StubServer
) -> None:
    stub.script = Script(faults={"number 3": ("refusal",)})
    codes = [toy.run("--variant", "base", model="alpha") for _ in range(2)]

    assert (codes, stub.stats()["requests"]) == ([1, 1], ANSWERS)
    assert toy.run("--variant", "base", "--retry", "all", model="alpha") == 0
    toy.run("--variant", "base", "--retry", "all", model="alpha")
    run = json.loads((toy.runs()[0] / "run.json").read_text())
    assert (run["redrawn"], run["costs"]["answers"]["calls"]) == (2, ANSWERS + 2)
    assert run["costs"]["total"]["cost_usd"] == pytest.approx(sum(stored(toy, "alpha")))


@pytest.mark.parametrize(("retry", "calls"), [("failed", 0), ("all", 2)])
def test_a_dry_run_tells_what_would_be_asked_again(
    toy: Toy, stub: StubServer, capsys: Lines, retry: str, calls: int
) -> None:
    stub.script = Script(faults={"number 3": ("refusal",)})
    toy.run("--variant", "base", model="alpha")
    capsys.readouterr()

    toy.run("--variant", "base", "--dry-run", "--json", "--retry", retry, model="alpha")

    [kind] = json.loads(capsys.readouterr().out)
    assert kind["calls"] - kind["stored"] == calls


@pytest.mark.parametrize(("model", "is_told"), [("oracle", False), ("beta", True)])
def test_without_a_price_tokens_are_told_if_anything(
    toy: Toy, stub: StubServer, capsys: Lines, *, model: str, is_told: bool
) -> None:
    toy.run("--variant", "base", model=model)

    out = capsys.readouterr().out
    assert ("\ntokens in/out: " in out, "cost: " in out) == (is_told, False)
    assert overall(toy)["near"].cost_usd is None


@pytest.mark.parametrize("models", rest_slow(["alpha,oracle", "oracle,literal"], kept=1))
def test_the_leaderboard_has_a_column_of_costs_where_there_are_any(
    toy: Toy, stub: StubServer, capsys: Lines, models: str
) -> None:
    toy.run("--variant", "base", model=models)
    capsys.readouterr()

    main(["leaderboard", "--results", str(toy.results)])

    lines = capsys.readouterr().out.splitlines()
    place = next(n for n, line in enumerate(lines) if line.startswith("rank"))
    below = [line.split() for line in lines[place:] if line.strip()]
    last = {words[1]: words[-1] for words in below if words[0] in ("rank", "1", "-")}
    costs = {"model": "USD", "alpha": usd(sum(stored(toy, "alpha"))), "oracle": "-"}
    none = {"model": "n", "oracle": "12", "literal": "12"}
    assert last == (costs if "alpha" in models else none)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--judge", "near"), "price: 0.00024 to 0.0022 USD\n"),
        (("--judge", "choice"), "USD: answers 0.00024 to 0.0022, judge choice 0.0031 to "),
        (
            ("--judge", "choice", "--judge-model", "beta"),
            "USD: answers 0.00024 to 0.0022; no price for beta, so only tokens are "
            "counted; add 'beta' to configs/prices.yaml of your own folder",
        ),
        (
            ("--judge", "choice", "--batch"),
            "USD: answers 0.00012 to 0.0011; no price for umpire in batches, so only "
            "tokens are counted; add 'umpire' with batch_share to",
        ),
    ],
)
def test_a_dry_run_tells_what_is_left_to_pay_and_whose_price_is_not_known(
    toy: Toy, stub: StubServer, capsys: Lines, *, options: tuple[str, ...], told: str
) -> None:
    toy.edit("configs/models/beta.yaml", "key_env: null", "key_env: STUB_KEY")
    toy.run("--variant", "base", *options, "--dry-run", model="alpha")
    assert told in capsys.readouterr().out


def test_a_model_without_a_price_is_named_as_its_provider_calls_it(
    toy: Toy, stub: StubServer, capsys: Lines
) -> None:
    toy.edit("configs/models/beta.yaml", "model: beta", "model: gpt-of-the-stub")
    toy.edit("configs/models/beta.yaml", "key_env: null", "key_env: STUB_KEY")

    toy.run("--variant", "base", "--dry-run", model="beta")
    assert toy.run("--variant", "base", "--budget", "1", model="beta") == 2

    out, err = capsys.readouterr()
    assert "no price for beta, so only tokens are counted; add 'gpt-of-the-stub' to" in out
    assert "no price is known of model beta; put it under 'gpt-of-the-stub'" in err


def test_a_keyless_server_on_this_machine_is_unpaid_and_not_without_a_price(
    toy: Toy, stub: StubServer, capsys: Lines
) -> None:
    toy.run("--variant", "base", "--judge", "near", "--dry-run", model="beta")
    alone = capsys.readouterr().out
    toy.run(*JUDGED, "--dry-run", model="beta")
    beside = capsys.readouterr().out

    assert "12 calls at most; tokens only: no model here is paid by the call\n" in alone
    assert "price: 0.0031 to 0.0317 USD: judge choice 0.0031 to 0.0317\n" in beside
    assert "no price for" not in alone + beside


@pytest.mark.parametrize("model", ["oracle", "beta"])
def test_a_hosted_judge_beside_unpaid_answers_is_all_that_its_run_cost(
    toy: Toy, stub: StubServer, capsys: Lines, model: str
) -> None:
    toy.run(*JUDGED, model=model)

    replies = sum(stored(toy, "umpire"))
    told = f"cost: {usd(replies)} USD: answers unpaid, judge choice {usd(replies)};"
    assert told in capsys.readouterr().out.replace("\n", " ")
    if model == "oracle":  # what the tokens of a server came to is not known
        costs = json.loads((toy.runs()[0] / "run.json").read_text())["costs"]
        assert costs["total"]["cost_usd"] == pytest.approx(replies)
        found = {judge: row.cost_usd for judge, row in overall(toy).items()}
        assert found == {"near": None, "choice": pytest.approx(replies)}


def test_a_dry_run_of_several_models_has_a_sum(toy: Toy, stub: StubServer, capsys: Lines) -> None:
    told = {}
    for model in ("alpha", "umpire", "alpha,umpire"):
        toy.run("--variant", "base", "--judge", "near", "--dry-run", "--json", model=model)
        runs = json.loads(capsys.readouterr().out)
        own = [part for run in runs for part in run["calls"]] if "," in model else runs
        told[model] = own
    toy.run("--variant", "base", "--judge", "near", "--dry-run", model="alpha,umpire")

    out = capsys.readouterr().out
    for name in ("alpha", "umpire"):
        assert re.search(rf"\ntoy +{name} +12 +0 +", out)
    assert told["alpha,umpire"] == told["alpha"] + told["umpire"]
    both = told["alpha,umpire"]
    least, most = (usd(sum(part[end] for part in both)) for end in ("least_usd", "most_usd"))
    assert f"in all: 24 calls at most; price: {least} to {most} USD\n" in out


@pytest.mark.parametrize(
    ("cap", "told"),
    [
        (
            "1",
            "--budget 1: stored calls have cost 0 USD, and the others cost at most "
            "0.0022: within the budget",
        ),
        ("0.001", "at most 0.0022: the calls may stop before their end"),
        ("0.0001", "at most 0.0022: the calls will stop before their end"),
    ],
)
def test_a_dry_run_says_whether_a_budget_holds(
    toy: Toy, stub: StubServer, capsys: Lines, *, cap: str, told: str
) -> None:
    run = ("--variant", "base", "--judge", "near", "--dry-run", "--budget", cap)
    assert toy.run(*run, model="alpha") == 0
    assert told in capsys.readouterr().out


@each(
    ("value", "told"),
    [(None, "-"), (0.0, "0"), (12.34567, "12.3457"), (0.001, "0.0010"), (0.000123, "0.00012")],
)
def test_a_small_sum_keeps_two_digits(value: float | None, told: str) -> None:
    assert usd(value) == told


def test_an_unknown_part_is_said_to_be_unknown() -> None:
    def cost(usage: Usage, *, is_whole: bool) -> Cost:
        tokens = (usage.prompt_tokens, usage.completion_tokens)
        return Cost(2, *tokens, usage.cost_usd if is_whole else None, usage)

    answers = cost(Usage(9, 4), is_whole=False)
    judge, total = cost(Usage(8, 2, 0.5), is_whole=True), cost(Usage(17, 6, 0.5), is_whole=False)

    assert cost_line(Costs(total, answers, {"j": judge})) == (
        "cost: at least 0.5000 USD: answers unknown, judge j 0.5000; tokens in/out: 17/6"
    )
    control = Cost(2, None, None, None, Usage())
    said = cost_line(
        Costs(Cost(4, None, None, None, judge.reported), control, {"j": judge}), ["answers"]
    )
    assert said == "cost: 0.5000 USD: answers unpaid, judge j 0.5000; tokens in/out: 8/2"


@pytest.mark.parametrize(("count", "calls"), [(1, "1 call"), (12, "12 calls")])
def test_calls_that_broke_off_are_told_where_nothing_else_is_known(count: int, calls: str) -> None:
    lost = Cost(1, None, None, None, Usage(), unanswered=count)
    told = cost_line(Costs(lost, lost, {}))
    assert told == f"{calls} broke off without an answer, at an unknown cost"
