"""Where tasks come from: WebSight and synthesis."""
