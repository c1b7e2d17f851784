"""An imaginary application, and its tests: real model names, no network, no keys."""
