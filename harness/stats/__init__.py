"""Numbers to numbers: statistics with their intervals, or the reason why one has no value.

The noun is the `Estimate`: begin with `estimate`, which has the cluster bootstrap too. Tables of
ratings are documents x systems, NaN where one is missing. Nothing here knows a file, a record or
a model, and what is drawn depends on a seed's text alone.
"""
