"""The loopback server of the chat tests serves the designers' tests too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "chat"))
