"""PURE. What users write and read: models, key names, reasons, the CRD, admission policies, rights."""
