"""envgen: a designer shapes worlds so that an agent grows in them.

Importing it registers its Gymnasium environments and nothing more; worlds are imported when one is made.
"""

import gymnasium

__version__ = "0.1.0"


def register() -> None:
    """Make `gymnasium.make("envgen/Crafter-v0")` work; Gymnasium itself calls this where envgen is installed."""
    gymnasium.register(
        "envgen/Crafter-v0",
        entry_point="envgen.worlds.crafter.env:CrafterEnv",
        vector_entry_point="envgen.worlds.crafter.vector:CrafterVectorEnv",
    )


if "envgen/Crafter-v0" not in gymnasium.registry:
    register()
