"""HTTP beside the WebSocket: health, and the same commands through the same gate."""

from .actions import action_routes
from .health import health_routes

__all__ = ["action_routes", "health_routes"]
