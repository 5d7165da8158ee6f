"""The hands: claim threads that are due, ask models, run tools, report outcomes to the desk. Decides nothing."""

from .runner import Runner

__all__ = ["Runner"]
