"""The Gemini dialect: generateContent, on the Gemini API and on Vertex."""
