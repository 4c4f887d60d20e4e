"""The loops: one task per pool, woken when something it depends on has changed."""
