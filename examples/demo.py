"""The main job on made-up ad clicks: a plan, its releases, a report. Run it with ``make demo``."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from discreet.core.errors import InsufficientBudget
from discreet.plans.job import Job, RunProgress

BANDS = ["18-24", "25-34", "35-49", "50-64", "65+"]
REGIONS = ["north", "east", "south", "west"]

PLAN = """\
title = "Ad clicks: did the new layout help?"

[source]
path = "clicks.parquet"

[ledger]
path = "clicks.ledger"
dataset = "ad clicks (made up)"

[budget]
epsilon = 4.0

[schema]
neighbours = "add_remove"
noun = "impression"

[schema.unit]
column = "device"
groups = 1
rows = 8

[schema.columns.arm]
label = "Layout"
categories = ["old", "new"]
nulls = "drop"
unknown = "drop"

[schema.columns.age_band]
label = "Age group"
categories = ["18-24", "25-34", "35-49", "50-64", "65+"]
nulls = "drop"
unknown = "drop"

[schema.columns.region]
label = "Region"
categories = ["north", "east", "south", "west"]
nulls = "drop"
unknown = "drop"

[schema.columns.clicked]
categories = [0, 1]
nulls = "drop"
unknown = "drop"

[schema.columns.spend]
measured_in = "dollars"
low = 0
high = 40
grid = 0.01
nulls = 0

[schema.features.spend]
measured_in = "dollars"
of = "spend"
take = "sum"
low = 0
high = 60

[schema.features.arm]
label = "Layout"
of = "arm"
take = "min"

[[release]]
name = "impressions"
title = "Impressions"
ask = "count"
weight = 1

[[release]]
name = "impressions-by-arm"
title = "Impressions by layout"
ask = "count"
by = ["arm"]
weight = 1

[[release]]
name = "click-rate"
title = "Share of impressions that were clicked, by layout"
ask = "proportion"
column = "clicked"
label = 1
by = ["arm"]
expected_rows = 190000
expected_proportion = 0.1
weight = 1

[[release]]
name = "spend-per-device"
title = "Mean spend of a device, by layout"
ask = "mean"
column = "spend"
by = ["arm"]
per_unit = true
expected_rows = 33000
weight = 4

[[release]]
name = "layouts"
title = "Does a device spend more under the new layout?"
ask = "compare_means"
column = "spend"
by = "arm"
per_unit = true
expected_sd = 5.0
expected_rows = 33000
weight = 3

[[release]]
name = "spend-quantiles"
title = "Quantiles of spend per device"
ask = "quantile"
column = "spend"
probabilities = [0.5, 0.75, 0.9, 0.99]
per_unit = true
recursive = true
weight = 2

[[release]]
name = "age-by-region"
title = "Impressions by age band and region"
ask = "table"
columns = ["age_band", "region"]
weight = 2

[[release]]
name = "clicks-by-arm"
title = "Clicks and layout: independent?"
ask = "independence"
columns = ["arm", "clicked"]
total = 1
expected_rows = 33000
weight = 3

[[release]]
name = "age-alike"
title = "Are age bands alike under both layouts?"
ask = "homogeneity"
column = "age_band"
by = "arm"
total = 1
expected_rows = 33000
weight = 2
"""


def make_clicks(rows: int, seed: int) -> pa.Table:
    """Impressions of devices: about six a device, two thirds without a click, spend with a heavy right tail."""
    rng = np.random.default_rng(seed)
    devices = max(rows // 6, 1)
    device = np.sort(rng.choice(devices, rows, p=_activity(rng, devices)))
    arm = rng.integers(0, 2, devices)
    band = rng.choice(len(BANDS), devices, p=[0.16, 0.27, 0.3, 0.18, 0.09])
    region = rng.choice(len(REGIONS), devices, p=[0.2, 0.25, 0.35, 0.2])
    clicks = rng.random(devices) < 1 / 3
    rate = np.where(arm[device] == 1, 0.34, 0.28)
    clicked = clicks[device] & (rng.random(rows) < rate)
    spend = np.where(clicked, np.round(rng.lognormal(0.8, 1.0, rows), 2), 0.0)
    return pa.table(
        {
            "device": device.astype(np.int64),
            "arm": np.array(["old", "new"])[arm][device],
            "age_band": np.array(BANDS)[band][device],
            "region": np.array(REGIONS)[region][device],
            "clicked": clicked.astype(np.int8),
            "spend": spend,
        }
    )


def _activity(rng: np.random.Generator, devices: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """How often each device is seen: mostly about six times, some much more often."""
    weights = rng.gamma(2.0, 1.0, devices)
    return np.asarray(weights / weights.sum())


def main() -> None:
    """Make the data, show the plan, run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--directory", type=Path, default=Path("demo"))
    options = parser.parse_args()
    # Other data is another data set, with a ledger of its own.
    directory = options.directory / f"{options.rows}-rows-seed-{options.seed}"
    directory.mkdir(parents=True, exist_ok=True)
    data, plan = directory / "clicks.parquet", directory / "clicks.toml"
    if not data.exists():
        print(f"Making {options.rows:,} impressions in {data}")
        pq.write_table(make_clicks(options.rows, options.seed), data)
    plan.write_text(PLAN, encoding="utf-8")
    job = Job(plan)
    print(f"\n{job.plan()}\n")
    try:
        result = job.run(progress=_show)
    except InsufficientBudget as refusal:  # the ledger of an earlier run of another plan
        raise SystemExit(f"{refusal}\n\nThe data is made up: delete {directory} to start again.") from None
    print(f"\n{result}\n\nOpen the report in a browser: {(result.page or result.markdown).resolve().as_uri()}")


def _show(step: RunProgress) -> None:
    source = "released" if step.fresh else "from the ledger"
    print(f"  [{step.done}/{step.total}] {step.name}: {source}", flush=True)


if __name__ == "__main__":
    main()
