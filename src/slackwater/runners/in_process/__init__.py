"""The embedded runner: depth-first execution with on-demand punctuations, no JVM."""
