"""The conformance runner: recorded traffic against the codecs, judged by readers that share no code with them."""
