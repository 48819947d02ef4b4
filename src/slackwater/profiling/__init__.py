"""How bad is the disorder of a stream, and what to do about it: measured, advised, and tried on rows not looked at."""
