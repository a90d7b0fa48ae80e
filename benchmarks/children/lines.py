"""The child's side of the line protocol. Plain Python: it runs in environments that have no forerun."""

import json
import os
import sys
from collections.abc import Callable, Mapping


def serve(ready: Callable[[], dict[str, object]], commands: Mapping[str, Callable[..., dict[str, object]]]) -> None:
    """Say ``ready``, then answer each line by the function of its ``command``, until standard input ends.

    Whatever libraries print goes to standard error, so that standard output carries answers alone.
    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    print(json.dumps(ready()), file=answers)
    for line in sys.stdin:
        request = json.loads(line)
        command = request.pop("command")
        try:
            answer = commands[command](**request)
        except Exception as error:  # reported to the parent, which decides
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers)
