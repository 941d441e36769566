"""Untrusted HTML in, a picture out.

What holds for every page, and is tested with hostile pages whose scripts run:

- Nothing leaves the machine: the browser maps every host and address to the page server in this process.
- No file of the machine is shown: a page is served from an http address that does not exist, never from a file.
- A page ends: after its time limit its browser is killed with all its processes, and a process has limited memory.
- A page changes nothing for the pages after it: each has a host of its own, so no storage is shared.
- A page cannot show another page, in particular not the reference, and cannot pass its own failure off as the
  machine's (`renderer`).

What does not hold: a page that exploits a bug of the browser has the rights of the user (as root, Chromium runs
without its own sandbox), and the time and memory that a page takes are visible to the pages drawn beside it.
"""
