"""Points in other programs' formats: the way back of evaluator.ledger.readers."""
