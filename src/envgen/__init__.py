"""envgen: a designer shapes worlds so that an agent grows in them.

Importing it registers its Gymnasium environments and nothing more; a world is imported when one of its is made.
"""

import gymnasium

__version__ = "0.1.0"

gymnasium.register(
    "envgen/Crafter-v0",
    entry_point="envgen.worlds.crafter.env:CrafterEnv",
    vector_entry_point="envgen.worlds.crafter.env:CrafterVectorEnv",
)
gymnasium.register(
    "envgen/Heist-v0",
    entry_point="envgen.worlds.heist.env:HeistEnv",
    vector_entry_point="envgen.worlds.heist.env:HeistVectorEnv",
)
