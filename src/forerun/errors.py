"""Errors that a person can act on."""


class ForerunError(Exception):
    """What was expected, what was found and what to do, in one line.

    The command line prints it on stderr and exits with 2; library users catch it.
    """

    def __init__(self, expected: str, found: str, remedy: str) -> None:
        super().__init__(f"expected {expected}; found {found}; {remedy}")
        self.expected = expected
        self.found = found
        self.remedy = remedy
