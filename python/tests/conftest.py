"""What the tests of the Python package share."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def digits() -> Path:
    return ROOT / "examples" / "models" / "digits"


@pytest.fixture(scope="session")
def tinyqwen() -> Path:
    return ROOT / "examples" / "models" / "tinyqwen"
