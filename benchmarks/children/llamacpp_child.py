"""llama.cpp's server on loopback: started from JSON on the command line, ended with standard input.

Only the address goes over lines; requests go over HTTP, as they would to any llama.cpp server.
"""

import json
import sys
from typing import Any

import xllamacpp  # type: ignore[import-not-found]

from benchmarks.children.lines import serve


def put(root: Any, path: str, value: object) -> None:
    """Set ``a.b.c``. A mistyped path is an error, never a setting that is quietly left out."""
    *parents, name = path.split(".")
    for parent in parents:
        root = getattr(root, parent)
    getattr(root, name)
    setattr(root, name, value)


def main() -> None:
    wanted = json.loads(sys.argv[1])
    params = xllamacpp.CommonParams()
    kinds = [getattr(xllamacpp.common_speculative_type, name) for name in wanted.pop("types")]
    if kinds:
        params.speculative.types = kinds
    for path, value in wanted.items():
        put(params, path, value)
    server = xllamacpp.Server(params)

    def ready() -> dict[str, object]:
        features = xllamacpp.get_system_info().split("|")
        return {
            "address": server.listening_address,
            "version": f"xllamacpp {xllamacpp.__version__}",
            "system": ", ".join(part.split("=")[0].strip() for part in features if "= 1" in part),
        }

    serve(ready, {})


if __name__ == "__main__":
    main()
