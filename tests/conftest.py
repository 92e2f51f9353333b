"""Settings that all tests share."""

import os

from hypothesis import settings

# People look for new counterexamples every time; continuous integration always tries the same.
settings.register_profile("explore", deadline=None, print_blob=True)
settings.register_profile("ci", parent=settings.get_profile("explore"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "explore")
