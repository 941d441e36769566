"""Pages and pictures of results; in an install the package `sweet_rl.visualizers`."""
