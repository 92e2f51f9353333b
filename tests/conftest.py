"""Settings that all tests share."""

from hypothesis import settings

settings.register_profile("dkmeans", deadline=None, print_blob=True)
settings.load_profile("dkmeans")
