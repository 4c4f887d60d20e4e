"""Removes from nodes what no pool removes any more."""
