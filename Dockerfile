# The harness on a CPU: hosted models, controls, and small checkpoints.
#
#     docker build -t pragmatics .
#     docker run --rm -v "$PWD/results:/results" pragmatics          # answers our 56 stories, without a key
#     docker run --rm -v "$PWD/results:/results" pragmatics leaderboard --results /results
#
# PyPI's torch for Linux on x86 brings several GB of CUDA libraries. PyTorch's own site names the index of its CPU builds:
#
#     docker build --build-arg TORCH="--index-url ADDRESS" -t pragmatics .
FROM python:3.11-slim

# the user's files in /results are theirs with --user "$(id -u):$(id -g)"
RUN useradd --create-home reader && install -d -m 1777 /results /cache
WORKDIR /harness

# what changes seldom comes first: a change of the program alone installs nothing anew
COPY requirements/local.lock requirements/local.lock
RUN pip install --no-cache-dir --no-deps --require-hashes -r requirements/local.lock
COPY constraints.txt ./
ARG TORCH=""
RUN pip install --no-cache-dir -c constraints.txt $TORCH torch

COPY pyproject.toml README.md LICENSE ./
COPY harness harness
COPY tasks tasks
COPY configs configs
COPY prompts prompts
RUN pip install --no-cache-dir --no-deps -e . && pip check

USER reader
ENV HARNESS_CACHE=/cache HF_HOME=/cache/huggingface
ENTRYPOINT ["python", "-m", "harness"]
CMD ["run", "--task", "intent_resolution", "--model", "oracle,literal,echo,tiny-random", "--judge", "minilm-cosine", "--results", "/results"]
