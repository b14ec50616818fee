"""The audit of one model: a few short calls with the templates that debates use, and what their replies show.

``probes`` makes the calls, ``findings`` counts, ``advice`` turns counts into one sentence. Only ``probes`` has I/O.
"""

from madke.audit.findings import Findings, Share, findings_of
from madke.audit.probes import PLANNED, Audit

__all__ = ["PLANNED", "Audit", "Findings", "Share", "findings_of"]
