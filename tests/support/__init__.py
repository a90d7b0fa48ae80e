"""Stand-ins shared by the tests of several rooms."""
