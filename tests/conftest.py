"""Settings shared by all tests."""

import hypothesis

# A shared machine makes single examples slow at random: no test may depend on the clock.
hypothesis.settings.register_profile("discreet", deadline=None, print_blob=True)
hypothesis.settings.load_profile("discreet")
