"""A provider on your own machine that speaks the four dialects and enforces the real providers' replay rules."""
