"""One stream out of many replicas of it (LMerge): an operator for each case, named by what its replicas may do.

    strictly_ordered    R0   inserts in strictly increasing order of time
    ordered_alike       R1   ties, in the same order in every replica
    ordered_with_key    R2   ties in any order; start and payload are a key
    revised_with_key    R3   disorder and revisions; start and payload are a key
    revised             R4   anything: the same event any number of times
    revised_apart       R3-  as R3, with an index for each replica: to be measured beside it

Beside them: settle puts one stream in order and applies its revisions, divergence names replicas that contradict each
other.

Paper: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, and the technical report of the
same title.
"""
