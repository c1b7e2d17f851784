"""Gemini's generateContent, as Google's API and as Vertex."""
