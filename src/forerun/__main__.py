"""``python -m forerun``."""

import sys

from forerun.cli.main import main

sys.exit(main())
