"""The loops: one task per pool, woken when something it depends on has changed.

``pools`` and the node reflector hold what is known; ``wake`` says which pool should look;
``pool_loop`` runs its passes one after the other; ``reconcile`` is one pass (observe, decide,
act, report); ``act`` performs what it decides under limits.
"""
