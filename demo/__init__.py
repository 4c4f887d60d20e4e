"""The whole story of winpool on a real control plane, told by the commands a person would type."""
