"""Function calls in the replies of language models: how they are read, and whether they are the expected ones."""
