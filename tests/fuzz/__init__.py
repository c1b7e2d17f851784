"""A fuzzer for the four dialects: it mutates recorded replies and checks what the codecs make of them."""
