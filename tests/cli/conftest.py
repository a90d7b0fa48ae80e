from __future__ import annotations

import pytest

from forerun.cli.main import main
from forerun.workloads.catalog import load_workloads
from support.command import Outcome, Run, TinyModels
from support.tiny_directory import save_tiny_directory


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyModels:
    """Tiny models on disk, saved once a session; tests don't write there."""
    base = tmp_path_factory.mktemp("models")
    texts = [prompt.plain_text for workload in load_workloads(("code", "repeat")) for prompt in workload.prompts]
    return TinyModels(
        str(save_tiny_directory(base / "target")),
        str(save_tiny_directory(base / "draft", seed=8, num_layers=1)),
        str(save_tiny_directory(base / "foreign", is_alphabet_reversed=True)),
        str(save_tiny_directory(base / "short", context=32)),
        str(save_tiny_directory(base / "fluent", texts=texts)),
        str(save_tiny_directory(base / "fluent_draft", texts=texts, seed=8, num_layers=1)),
    )


@pytest.fixture
def forerun(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in this process."""

    def run(*words: object) -> Outcome:
        capsys.readouterr()
        code = main([str(word) for word in words])
        return Outcome(code, *capsys.readouterr())

    return run


@pytest.fixture
def generate(forerun: Run, tiny: TinyModels) -> Run:
    """``forerun generate`` of the tiny target, in fp32 so that nothing depends on the machine."""

    def run(*words: object, model: str = tiny.target) -> Outcome:
        return forerun("generate", "--model", model, "--dtype", "float32", *words)

    return run
