"""Results for people: the page of a result, pictures, plots, and a viewer for scenes."""

from cfusion.view.page import write_page

__all__ = ["write_page"]
