"""The compiled first layer computes the same to the bit whether it was compiled just now or found on disk."""

import os
import subprocess
import sys

PROGRAM = """
import hashlib
import numpy as np
import torch
from envgen.agents.fused import _backward
from envgen.agents.symbols import SymbolLayer

torch.manual_seed(0)
layer = SymbolLayer(np.array([5] * 40 + [255]), 512)
symbols = torch.randint(0, 6, (64, 41), dtype=torch.uint8)
out = layer(symbols)
found = torch.autograd.grad(out, list(layer.parameters()), torch.randn(64, 512))
digest = hashlib.sha256(b"".join(array.detach().numpy().tobytes() for array in (out, *found)))
print(sum(_backward.stats.cache_hits.values()), digest.hexdigest())
"""


def test_compiled_anew_or_found_on_disk_it_computes_the_same(tmp_path):
    def run() -> tuple[str, str]:
        environment = {**os.environ, "ENVGEN_CACHE": str(tmp_path)}
        done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, check=True)
        hits, digest = done.stdout.decode().split()
        return hits, digest

    (anew, first), (found, second) = run(), run()
    assert (anew, found) == ("0", "1")
    assert first == second
