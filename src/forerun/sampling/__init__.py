"""Which token comes next: parameters, processors and keyed noise."""
