"""What a person looks at: dialogues, their grades and their credit as one page, in a file or served."""
