"""The native CPU path: C++ kernels behind a plain C interface, and what builds, loads and feeds them."""
