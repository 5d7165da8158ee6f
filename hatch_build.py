"""Puts the JS client's modules into the wheel, beside the pages that import them.

An editable install reads them from the checkout instead, which is why this is a hook and not a static setting.
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ClientModules(BuildHookInterface):  # type: ignore[misc]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or version == "editable":
            return
        for module in sorted((Path(self.root) / "client_js").glob("*.js")):
            build_data["force_include"][str(module)] = f"waitpoint/client_js/{module.name}"
