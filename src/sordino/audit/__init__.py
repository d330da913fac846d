"""Lower bounds on the privacy loss of a run, exact where its law is known, and what they say about a certificate."""

from sordino.audit.lower_bound import Examined as Examined
from sordino.audit.lower_bound import LowerBound as LowerBound
from sordino.audit.method import AuditOptions as AuditOptions
from sordino.audit.method import audit as audit
from sordino.audit.method import audit_method as audit_method
from sordino.audit.method import audit_methods as audit_methods
from sordino.audit.trade_off import TradeOffPoint as TradeOffPoint
from sordino.audit.verdict import Verdict as Verdict
from sordino.audit.verdict import VerdictKind as VerdictKind
from sordino.audit.verdict import verdict as verdict
