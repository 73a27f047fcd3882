"""A frame to what people see: documents, figures and the page. Nothing here computes a number."""
