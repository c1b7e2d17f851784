"""Values: frozen msgspec structs. Imports nothing of the package but itself."""
