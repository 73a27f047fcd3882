"""Figures by matplotlib: a plain function each, frames in, panels with their data out.

`figure` has the two records, the rules that all figures keep, and the layout; `marks` draws one
series, `style` has the colours and fits texts. The others make figures, a family each; `named`
lists them by the names of the command line.
"""
