"""`tenuto embed`: what reads texts, asks for vectors, keeps them, and ranks them."""
