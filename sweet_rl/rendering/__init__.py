"""Untrusted HTML in, a picture out.

What holds for every page, and is tested with hostile pages in both browsers:

- Nothing leaves the machine: every request is answered by this package or fails inside the browser; a
  Content-Security-Policy and the browser's own settings (no name resolves, no proxy exists) each forbid it again.
- No file of the machine is shown: a page is served from an http address that does not exist, never from a file.
- A page ends: after its time limit, or if it uses too much memory, its browser is killed with all its processes.
- A page changes nothing for the pages after it: without scripts none of its code runs, with scripts it has a profile
  of its own that is deleted.
- A page cannot pass its own failure off as the machine's (`renderer`).

What does not hold: a page that exploits a bug of the browser has the rights of the user (as root, Chromium runs
without its own sandbox), and the time and memory that a page takes are visible to the pages drawn beside it.
"""
