"""Libraries are loaded without optional dependencies that nothing needs."""

import subprocess
import sys

import pytest

from cachewatch.runtime.light_imports import without


def test_deepdiff_is_loaded_without_pydantic() -> None:
    """And pydantic can be loaded afterwards, by whoever needs it."""
    code = """
import sys
from cachewatch.diff import load_deepdiff
load_deepdiff()
assert "deepdiff" in sys.modules and "pydantic" not in sys.modules, sorted(sys.modules)
from pydantic import BaseModel
import deepdiff
assert deepdiff.DeepDiff({1: 2}, {1: 3})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_what_is_loaded_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    import json.decoder as loaded  # noqa: PLC0415

    monkeypatch.delitem(sys.modules, "wave", raising=False)
    with without("json.decoder", "wave"):
        import json.decoder as again  # noqa: PLC0415

        with pytest.raises(ImportError):
            import wave  # noqa: PLC0415
    import wave  # noqa: PLC0415

    assert again is loaded
    assert wave.__name__ == "wave"
