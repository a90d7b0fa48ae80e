"""Compiles the native kernels with the package where a C++ compiler is there; everything else is in pyproject.toml."""

import importlib.util
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

NATIVE = Path("src/forerun/models/native")


class BuildWithKernels(build_py):
    """Copies the package, kernels included. Without them forerun works through torch, only slower."""

    def run(self) -> None:
        spec = importlib.util.spec_from_file_location("forerun_native_build", NATIVE / "build.py")
        builder = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(builder)
        try:
            print("native kernels:", ", ".join(builder.build()))
        except RuntimeError as error:
            print(f"native kernels are left out, forerun will run through torch alone: {error}", file=sys.stderr)
        super().run()


class PlatformDistribution(Distribution):
    """The wheel holds machine code, so it is one platform's."""

    def has_ext_modules(self) -> bool:
        return True


setup(cmdclass={"build_py": BuildWithKernels}, distclass=PlatformDistribution)
