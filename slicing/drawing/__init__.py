"""Pictures and tables as text: timelines as SVG, tables as HTML. Knows instants and labels, but no windows.

A timeline is a value that says what lies where in time; how that looks is `svg`'s. Nothing here asks for fonts, scripts
or files, so that a picture is one text which a page, a notebook and a repository show alike, in the light and the dark.
"""
