"""A team that reads the files of a directory and answers a question about them."""
