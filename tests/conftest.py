"""Settings for every test: one thread, and a passive wait so that two busy cores never stall each other."""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OMP_NUM_THREADS", "1")
