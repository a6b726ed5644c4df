"""Settings shared by all tests."""

import hypothesis

# A shared machine makes single examples slow at random: no test may depend on the clock. Nor on luck: the examples are
# those of the last run. `make deep` looks for new ones.
SLOW = [hypothesis.HealthCheck.too_slow]
hypothesis.settings.register_profile("discreet", deadline=None, derandomize=True, suppress_health_check=SLOW)
hypothesis.settings.register_profile("new examples", deadline=None, print_blob=True, suppress_health_check=SLOW)
hypothesis.settings.load_profile("discreet")
