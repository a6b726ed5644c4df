from .exact_losses import audit_choices as audit_choices
from .exact_losses import audit_exactly as audit_exactly
from .exact_losses import audit_exhaustively as audit_exhaustively
from .exact_losses import audit_laws as audit_laws
from .hostile import audit_hostile as audit_hostile
from .replay import audit_replay as audit_replay
from .run import run_audit as run_audit
from .statistical import audit_draws as audit_draws
from .statistical import audit_pair as audit_pair
from .statistical import audit_repetition as audit_repetition
from .statistical import audit_timing as audit_timing
from .tampering import audit_spending as audit_spending

__all__: list[str]
