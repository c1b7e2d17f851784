"""The command `tenuto`: one file for each of its verbs, loaded when it is called."""
