"""A chat service with FastAPI. Start it with `uvicorn examples.web_service.app:app --workers 2`."""
