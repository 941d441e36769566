"""The viewer: dialogues, their grades and their credit as one HTML page, in a file or served."""
