"""Points in the formats of other programs: the way back of evaluator.ledger.readers."""
