"""The code of docs/from-pytorch.md runs as it stands there, from top to bottom."""

import os
import re
import shlex
import subprocess
import sys

import pytest
from conftest import ROOT

pytest.importorskip("torch")
pytest.importorskip("transformers")


def test_from_pytorch(tmp_path, monkeypatch, capsys):
    text = (ROOT / "docs" / "from-pytorch.md").read_text()
    blocks = re.findall(r"^```(python|sh)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert [kind for kind, _ in blocks].count("python") >= 6 and [kind for kind, _ in blocks].count("sh") >= 2
    monkeypatch.chdir(tmp_path)
    command = tmp_path / "bin" / "npusim"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m npusim "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    names = {"__name__": "from_pytorch"}
    import npusim.torch_compile  # noqa: F401  an installed package is found by its name without this

    for kind, code in blocks:
        if kind == "python":
            exec(compile(code, "docs/from-pytorch.md", "exec"), names)
        else:
            done = subprocess.run(["bash", "-euc", code], check=False, capture_output=True, text=True)
            assert done.returncode == 0, code + done.stderr
