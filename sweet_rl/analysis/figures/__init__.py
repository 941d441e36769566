"""Figures of results, as PNG and SVG, that can be read in black and white."""
