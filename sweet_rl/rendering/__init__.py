"""Untrusted HTML in, a picture out."""
