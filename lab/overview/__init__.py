"""The main table and the figure of the page of results, from the files of all studies."""
