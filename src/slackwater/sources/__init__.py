"""Where rows come from: tables, files, iterables and live feeds."""
