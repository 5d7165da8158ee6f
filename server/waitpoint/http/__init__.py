"""HTTP beside the WebSocket: health for now. The same commands through the same desk come here later."""

from .health import health_routes

__all__ = ["health_routes"]
