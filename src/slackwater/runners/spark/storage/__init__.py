"""Files and folders wherever Spark keeps them, local or in one of Hadoop's file systems."""
