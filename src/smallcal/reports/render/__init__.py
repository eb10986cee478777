"""How a report looks: a page, Markdown, its figures."""
