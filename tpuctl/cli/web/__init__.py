"""HTML made of elements, and the colours of pages: for the dashboard and for reports."""
