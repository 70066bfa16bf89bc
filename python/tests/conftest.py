"""What the tests of the Python package share."""

import os
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # PyTorch's threads and npusim's take turns on the same cores

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def plugin():
    """None but where a test asks for it: what is refused does not depend on what was built."""
    import npusim

    npusim.use_aten_plugin("no plugin")
    yield
    npusim.use_aten_plugin("")


@pytest.fixture(scope="session")
def digits() -> Path:
    return ROOT / "examples" / "models" / "digits"


@pytest.fixture(scope="session")
def tinyqwen() -> Path:
    return ROOT / "examples" / "models" / "tinyqwen"
