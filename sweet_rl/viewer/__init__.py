"""The viewer: dialogues, their grades and their credit as one HTML file."""
