"""Takes off nodes what no pool takes off any more."""
