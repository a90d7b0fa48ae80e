"""The layout is the architecture: a room imports only from rooms below it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "forerun"

# From the top to the bottom, as in ARCHITECTURE.md. Rooms on one level don't know each other.
LEVELS = [
    ["__main__"],
    ["cli"],
    ["report"],
    ["sweep"],
    ["backends"],
    ["workloads"],
    ["engine"],
    ["drafters"],
    ["corpus", "verify"],
    ["cache"],
    ["models"],
    ["sampling"],
    ["ratios", "conditions"],
    ["types"],
    ["errors"],
]
LEVEL_OF = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path: Path) -> list[str]:
    """Rooms of forerun that a file imports, at the top or inside a function."""
    rooms = []
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" if node.module == "forerun" else str(node.module)
                     for alias in node.names]  # fmt: skip
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        rooms += [name.split(".")[1] for name in names if name.startswith("forerun.")]
    return rooms


def violations(path: Path) -> list[str]:
    own = room_of(path)
    return [
        f"{path.relative_to(SOURCE)} imports {room}"
        for room in imports(path)
        if room != own and LEVEL_OF[room] <= LEVEL_OF[own]
    ]


FILES = sorted(path for path in SOURCE.rglob("*.py") if path.name != "__init__.py" or path.parent != SOURCE)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_only_go_down(path: Path) -> None:
    assert violations(path) == []


def test_every_room_has_a_level() -> None:
    assert {room_of(path) for path in FILES} <= set(LEVEL_OF)


def test_an_upward_import_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = tmp_path / "cache" / "planted.py"
    planted.parent.mkdir()
    planted.write_text("def late():\n    from forerun.engine.engine import Engine\n")
    monkeypatch.setattr("test_rooms.SOURCE", tmp_path)
    assert violations(planted) == ["cache/planted.py imports engine"]


def test_no_method_is_known_by_name_outside_its_folder() -> None:
    """A new method is a folder and a registry line: nothing else may import a method's folder."""
    methods = {path.name for path in (SOURCE / "drafters").iterdir() if path.is_dir() and path.name != "__pycache__"}
    for path in FILES:
        own = path.relative_to(SOURCE).parts
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("forerun.drafters."):
                method = str(node.module).split(".")[2]
                is_inside = own[0] == "drafters" and own[1] in (method, "registry.py")
                assert method not in methods or is_inside, f"{'/'.join(own)} knows {method}"
