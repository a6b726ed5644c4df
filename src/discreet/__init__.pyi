from .core.guarantee import ApproxDP as ApproxDP
from .core.guarantee import GaussianDP as GaussianDP
from .core.guarantee import PureDP as PureDP
from .core.guarantee import ZeroConcentratedDP as ZeroConcentratedDP
from .core.protection import Neighbours as Neighbours
from .core.schema import Bands as Bands
from .core.schema import Bounds as Bounds
from .core.schema import Categories as Categories
from .core.schema import Contribution as Contribution
from .core.schema import Dates as Dates
from .core.schema import Design as Design
from .core.schema import Feature as Feature
from .core.schema import PrivacyUnit as PrivacyUnit
from .core.schema import PrivateLabels as PrivateLabels
from .core.schema import Related as Related
from .core.schema import Schema as Schema
from .mechanisms.composition import compose as compose
from .plans.planner import ExpectedLabels as ExpectedLabels
from .plans.planner import ExpectedNumbers as ExpectedNumbers
from .plans.planner import Scenario as Scenario
from .questions.formulas import Formula as Formula
from .questions.grouped import Bins as Bins
from .questions.profile.released_first import PrivateBounds as PrivateBounds
from .questions.profile.released_first import PrivateLimit as PrivateLimit
from .results.display import Interval as Interval
from .results.ledger import Ledger as Ledger
from .results.plan import Plan as Plan
from .results.plan import plan as plan
from .results.release import Release as Release
from .results.release import release as release
from .session import Session as Session

__all__: list[str]
__version__: str
