"""The commands run, judge and read as functions of a workspace."""

from collections.abc import Sequence

from harness.pipeline import execute, reread
from harness.pipeline.execute import RunResult
from harness.pipeline.reread import RereadResult
from harness.pipeline.resolve import RunOptions, resolve, resolve_reread, resolve_stored
from harness.pipeline.setup import JudgeSource
from harness.storage.runs import RunFolder
from harness.workspace import Workspace


def run(workspace: Workspace, options: RunOptions) -> RunResult:
    return execute.run(resolve(workspace, options))


def judge(workspace: Workspace, folder: RunFolder, names: Sequence[JudgeSource]) -> RunResult:
    return execute.judge(resolve_stored(workspace, folder, names))


def read(workspace: Workspace, folder: RunFolder) -> RereadResult:
    return reread.reread(resolve_reread(workspace, folder))
