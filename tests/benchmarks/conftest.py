"""``benchmarks`` is no installed package: it lies beside the tests, at the top of the repository."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))
