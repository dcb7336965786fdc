"""A folder for each test's run with no other runs beside it: a run takes over what one beside it,
of the same configuration, has ended with.
"""

from pathlib import Path

import pytest


@pytest.fixture
def tmp_path(tmp_path: Path) -> Path:
    own = tmp_path / "run"
    own.mkdir()
    return own
