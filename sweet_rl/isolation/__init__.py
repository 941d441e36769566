"""Untrusted text: `sandbox/` runs Python and returns plain values, `rendering/` draws HTML and returns a picture."""
