"""The parts of the report page, one file each: a function from the result to markup."""
