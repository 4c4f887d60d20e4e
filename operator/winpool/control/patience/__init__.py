"""When a write may be tried again, after whatever came of the last one."""
