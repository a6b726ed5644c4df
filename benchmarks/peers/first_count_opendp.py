"""A first count of 1,000 rows with OpenDP."""

import opendp.prelude as dp

dp.enable_features("contrib")
space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
count = space >> dp.t.then_count() >> dp.m.then_laplace(1.0)
print(count([float(i) for i in range(1000)]))
