"""What Spark does of a profile: narrow rows, kept while they are looked at, in slices of arrival."""
