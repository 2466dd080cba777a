"""Pictures and tables as text: timelines as SVG, tables as HTML. It knows instants and labels, but no windows.

A timeline is a value that places shapes in time; `svg` decides how they look. A picture is one text without external
fonts, scripts or files, so that a page, a notebook and a repository show it alike, in light and dark mode.
"""
