"""Looks at pods: at all of them now and then, at those of single nodes where somebody waits."""
