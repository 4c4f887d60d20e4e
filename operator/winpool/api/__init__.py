"""What users write and read: models, key names, reasons, and the CRD made from them.

This is the bottom of the house: it imports the standard library and pydantic, and
nothing of winpool outside this folder.
"""
