"""Runs, ratings and texts to figures: one style, drawn by matplotlib, each with its data as CSV.

Read `chart` first: the records of which every figure is made, and the rules that all of them keep.
`drawing`, `marks` and `style` know matplotlib. The others make charts, a family each:
`comparisons` of scores, `people` of ratings, `detection` of verdicts on labelled texts, `texts` of
sentences and the metric ImpScore. `named` lists them by the names of the command line.
"""
