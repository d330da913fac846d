"""Published statements that do not hold, for the papers' curves only; no theorem uses them, none is a certificate."""
