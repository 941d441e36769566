"""Statistics over runs, comparison tables, figures, costs and result pages."""
