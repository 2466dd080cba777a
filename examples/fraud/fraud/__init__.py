"""Features of payment cards: one definition for the stream, for training and for the value now."""
