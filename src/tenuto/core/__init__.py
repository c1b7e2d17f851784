"""Values: frozen structs that say what was said. Imports msgspec and nothing else of weight."""
