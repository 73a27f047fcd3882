"""Small tokenizers, one a family that language models use, built here: nothing is downloaded.

All know the same few words. What tells them apart is what they do to spaces, digits, accents and
bytes, what they put around a text, and which characters they say a token stands for.
"""

from collections.abc import Callable, Iterable
from functools import cache, partial
from string import ascii_letters, digits, punctuation
from typing import TYPE_CHECKING

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers.pre_tokenizers import BertPreTokenizer, ByteLevel, Metaspace, Split
from tokenizers.pre_tokenizers import Sequence as Pipeline
from tokenizers.processors import ByteLevel as Offsets
from tokenizers.processors import Sequence as Processors
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

WORDS = ["Answer", "He", "She", "is", "un", "unhappy", "happy", "able", "wants", "tea", "now"]
NUMBERS = ["1", "2"]
RUNS = ["\n  ", "\n\n", ":\n", " \u2019", "\u201d"]
LETTERS = f"{ascii_letters}{digits}{punctuation}\u201c\u201d\u2019é"
ENDS = ["<s>", "</s>"]
LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def merged(words: Iterable[str], letters: Iterable[str], **options: object) -> models.BPE:
    """A BPE that joins each word letter by letter, from its start."""
    vocabulary = {letter: place for place, letter in enumerate(dict.fromkeys(letters))}
    merges = []
    for word in words:
        for letter in word:
            vocabulary.setdefault(letter, len(vocabulary))
        for end in range(1, len(word)):
            if word[: end + 1] not in vocabulary:
                vocabulary[word[: end + 1]] = len(vocabulary)
                merges.append((word[:end], word[end]))
    return models.BPE(vocab=vocabulary, merges=merges, **options)


def byte_level(
    *, trims: bool = True, prefix: bool = False, split: str = "", template: str = ""
) -> Tokenizer:
    """GPT-2's family: bytes joined to words; with `split` Llama 3's."""
    spelled = ByteLevel(add_prefix_space=False, use_regex=False)
    words = [f"{space}{word}" for space in (" ", "") for word in [*WORDS, *NUMBERS]]
    pieces = [spelled.pre_tokenize_str(word)[0][0] for word in [*words, *RUNS]]
    tokenizer = Tokenizer(merged(pieces, sorted(ByteLevel.alphabet())))
    tokenizer.pre_tokenizer = (
        Pipeline([Split(Regex(split), "isolated"), spelled])
        if split
        else ByteLevel(add_prefix_space=prefix)
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(ENDS)
    steps = [Offsets(trim_offsets=trims), *_around(tokenizer, template)]
    tokenizer.post_processor = Processors(steps)
    return tokenizer


def metaspace(scheme: str, *, template: str = "<s> $A", has_numbers: bool = True) -> Tokenizer:
    """SentencePiece's BPE with byte fallback: a space is ▁, put before a text or not."""
    behind = [*WORDS, *NUMBERS] if has_numbers else WORDS
    tokenizer = Tokenizer(_falling_back([*(f"▁{word}" for word in behind), *WORDS]))
    tokenizer.pre_tokenizer = Metaspace(prepend_scheme=scheme)
    tokenizer.decoder = decoders.Sequence(
        [decoders.ByteFallback(), decoders.Metaspace(prepend_scheme=scheme)]
    )
    tokenizer.add_special_tokens(ENDS)
    tokenizer.post_processor = Processors(_around(tokenizer, template))
    return tokenizer


def llama_2(*, template: str = "<s> $A") -> Tokenizer:
    """Llama 2 and Mistral: a normaliser writes the ▁, nothing splits a text, digits are single."""
    tokenizer = metaspace("never", template=template, has_numbers=False)
    tokenizer.pre_tokenizer = None
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return tokenizer


def gemma() -> Tokenizer:
    """Gemma: a normaliser writes ▁ for spaces and puts none before a text."""
    tokenizer = metaspace("never")
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    return tokenizer


def unigram(*, template: str, is_composed: bool = False) -> Tokenizer:
    """SentencePiece's Unigram; composed, a letter and its accent become one character."""
    pieces = [(f"<0x{byte:02X}>", -20.0) for byte in range(256)]
    pieces += [(letter, -10.0) for letter in f"▁{LETTERS}"]
    words = [*WORDS, *(f"▁{word}" for word in [*WORDS, *NUMBERS])]
    pieces += [(word, -3.0 - 0.1 * len(word)) for word in words]
    tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0), *pieces], unk_id=0, byte_fallback=True))
    if is_composed:
        tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    tokenizer.add_special_tokens(ENDS)
    tokenizer.post_processor = Processors(_around(tokenizer, template))
    return tokenizer


def word_piece() -> Tokenizer:
    """BERT's family: lower case, no accents, no spaces."""
    pieces = [*map(str.lower, WORDS), *LETTERS.lower()]
    names = ["[UNK]", *ENDS, *pieces, *(f"##{piece}" for piece in pieces)]
    vocabulary = {name: place for place, name in enumerate(dict.fromkeys(names))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(ENDS)
    tokenizer.post_processor = Processors(_around(tokenizer, "<s> $A </s>"))
    return tokenizer


EXACT: dict[str, Callable[[], Tokenizer]] = {
    "gpt2": byte_level,
    "gpt2-untrimmed": partial(byte_level, trims=False),
    "opt": partial(byte_level, template="</s> $A"),
    "llama3": partial(byte_level, split=LLAMA_3, trims=False, template="<s> $A"),
    "qwen": partial(byte_level, split=LLAMA_3),
    "metaspace-always": partial(metaspace, "always"),
    "metaspace-first": partial(metaspace, "first"),
    "metaspace-never": partial(metaspace, "never"),
    "llama2": llama_2,
    "llama2-adds-eos": partial(llama_2, template="<s> $A </s>"),
    "gemma": gemma,
    "t5": partial(unigram, template="$A </s>"),
}
"""Those whose tokens give a text back as it was."""
LOSSY: dict[str, Callable[[], Tokenizer]] = {
    "gpt2-prefix": partial(byte_level, prefix=True),
    "unigram-nfkc": partial(unigram, template="<s> $A", is_composed=True),
    "bert": word_piece,
}
FAMILIES = {**EXACT, **LOSSY}
NO_BOS = {"gpt2", "gpt2-untrimmed", "gpt2-prefix", "qwen", "t5"}
"""Those that put no BOS before a text, though gpt2-untrimmed has one."""


def built(name: str, chat_template: str | None = None) -> "PreTrainedTokenizerBase":
    """The tokenizer of a family, with a chat template where one is given."""
    bos = {"opt": "</s>", "gpt2-untrimmed": "<s>"}.get(name, None if name in NO_BOS else "<s>")
    tokenizer: PreTrainedTokenizerBase = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]  # unannotated
        tokenizer_object=Tokenizer.from_str(_spelled(name)),
        bos_token=bos,
        eos_token="</s>",
        chat_template=chat_template,
    )
    return tokenizer


@cache
def _spelled(name: str) -> str:
    spelled: str = FAMILIES[name]().to_str()
    return spelled


def with_marker(tokenizer: "PreTrainedTokenizerBase", marker: str) -> None:
    """Add a marker of turns that swallows the blanks behind it, as Phi-3's do."""
    tokenizer.add_special_tokens(
        {"additional_special_tokens": [AddedToken(marker, rstrip=True, special=True)]}
    )


def _falling_back(pieces: Iterable[str]) -> models.BPE:
    """A BPE that spells unknown characters in bytes."""
    letters = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *LETTERS]
    return merged(pieces, letters, byte_fallback=True, unk_token="<unk>", fuse_unk=True)


def _around(tokenizer: Tokenizer, template: str) -> list[TemplateProcessing]:
    """What a tokenizer puts around a text, where it puts anything."""
    if not template:
        return []
    names = [name for name in ENDS if name in template.split()]
    ids = [(name, tokenizer.token_to_id(name)) for name in names]
    return [TemplateProcessing(single=template, special_tokens=ids)]
