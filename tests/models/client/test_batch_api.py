"""Records of batches: written whole, read back, in order, and refused where damaged."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import StoreError
from harness.models.client.batches import BatchFiles, BatchRecord
from harness.storage.ledger import Ledger

ONE = BatchRecord("aa", "openai", "http://h/v1", 5.0, ("k1", "k2"), 2)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    files = BatchFiles(tmp_path / "calls/m/batches")
    done = replace(ONE, id="batch_1", state="collected", failed=("k2",))

    files.write(ONE)
    files.write(done)

    assert files.read() == [done]
    assert [path.name for path in (tmp_path / "calls/m/batches").iterdir()] == ["aa.json"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"nonce": "aa"}', '{"nonce": 3}'])
def test_a_damaged_record_is_named_with_the_remedy(tmp_path: Path, content: str) -> None:
    (tmp_path / "aa.json").write_text(content)

    with pytest.raises(StoreError, match=r"aa\.json: damaged record of a batch .*or remove it"):
        BatchFiles(tmp_path).read()


def test_a_record_that_cannot_be_written_is_reported_before_anything_is_paid(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StoreError, match="cannot be written"):
        BatchFiles(tmp_path / "file").write(ONE)


def test_records_are_no_part_of_the_ledger(tmp_path: Path) -> None:
    BatchFiles(tmp_path / "batches").write(ONE)

    assert Ledger(tmp_path).find(["k1"]) == {}
    assert Ledger(tmp_path).identities() == set()
