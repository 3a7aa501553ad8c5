"""Pages with charts: figures on no ground of their own, and the one file that draws them, light or dark."""
