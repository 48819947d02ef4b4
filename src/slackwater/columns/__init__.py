"""What operators do with columns of rows: rows as bytes and numbers, stored, woven, computed."""
