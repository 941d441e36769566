"""Drawing untrusted pages: the browser's process, its protocol, and what a page's outside references become."""
