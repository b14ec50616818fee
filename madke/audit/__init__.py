"""The audit of one model: a few short calls with the templates that debates use, and what their replies show.

``probes`` makes the calls; ``findings`` counts, and turns the counts into one sentence of advice.
"""

from madke.audit.findings import Findings, Share, advice, findings_of
from madke.audit.probes import PLANNED, Audit

__all__ = ["PLANNED", "Audit", "Findings", "Share", "advice", "findings_of"]
