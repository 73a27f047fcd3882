"""Serves a GGUF file through llama.cpp's own server, with OpenAI's API, until it is ended.

Usage: python serve.py FILE [PORT], by default 8080. A base checkpoint has no chat template: the
one given here sends the turns' texts alone, as this project's local back ends do.
"""

import sys
import time
from pathlib import Path

import xllamacpp

PLAIN = (
    "{% for turn in messages %}{{ turn['content'] }}{% if not loop.last %}\n{% endif %}{% endfor %}"
)


def main(file: str, port: int) -> None:
    """Serve until killed."""
    params = xllamacpp.CommonParams()
    params.model.path = file
    params.model_alias = {Path(file).stem}  # else the model's name is the path of the file
    params.port = port
    params.n_ctx, params.n_parallel = 4096, 2
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    params.use_jinja, params.chat_template = True, PLAIN
    # Threads of so small a model only wait for each other, above all on a machine that does more.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 8080)
