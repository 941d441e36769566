"""Untrusted Python in, plain values out."""
