"""Import documents and files into knowledge bases."""
