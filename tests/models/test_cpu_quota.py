"""CPU quotas of containers, as the kernel shows them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from forerun.models.cpu_quota import cpu_quota, keep_threads_within_quota


@pytest.fixture(autouse=True)
def _same_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def machine(root: Path, groups: str, **files: str) -> Path:
    """A root directory with ``groups`` as /proc/self/cgroup; ``files`` by path, / and . written as __ and _dot_."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("0::/\n", {"cpu_dot_max": "250000 100000\n"}, 3),
        ("0::/\n", {"cpu_dot_max": "20000 100000\n"}, 1),
        ("0::/\n", {"cpu_dot_max": "max 100000\n"}, None),
        ("0::/\n", {}, None),
        ("0::/a/b\n", {"a__cpu_dot_max": "200000 100000\n", "a__b__cpu_dot_max": "max 100000\n"}, 2),
        (
            "4:cpu,cpuacct:/x\n1:memory:/x\n",
            {"cpu__x__cpu_dot_cfs_quota_us": "400000", "cpu__x__cpu_dot_cfs_period_us": "100000"},
            4,
        ),
        ("4:cpu:/x\n", {"cpu__x__cpu_dot_cfs_quota_us": "-1", "cpu__x__cpu_dot_cfs_period_us": "100000"}, None),
    ],
)
def test_quota(groups: str, files: dict[str, str], expected: int | None, tmp_path: Path) -> None:
    assert cpu_quota(machine(tmp_path, groups, **files)) == expected


def test_no_control_groups(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path) is None


def test_threads_are_lowered_and_never_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = machine(tmp_path, "0::/\n", cpu_dot_max="300000 100000\n")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    for before, after in ((8, 3), (2, 2)):
        torch.set_num_threads(before)
        keep_threads_within_quota(root)
        assert torch.get_num_threads() == after
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    torch.set_num_threads(8)
    keep_threads_within_quota(root)
    assert torch.get_num_threads() == 8
