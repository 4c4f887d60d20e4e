"""How well memory pressure is met: families of machines in virtual time, and those that act on them."""
