"""One pass of one pool: observe, decide, act, report."""
