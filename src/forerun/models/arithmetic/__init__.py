"""How a decoder's passes are computed through torch: exactly, or as fast as torch goes."""
