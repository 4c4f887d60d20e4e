"""The loops of the operator, who wakes them, and what they are made of."""
