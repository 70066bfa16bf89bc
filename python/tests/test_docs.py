"""The code of README.md, docs/from-pytorch.md and docs/wrong-result.md runs as it stands there, from top to bottom."""

import os
import re
import shlex
import subprocess
import sys

import pytest
from conftest import ROOT

pytest.importorskip("torch")


@pytest.mark.parametrize(
    "page, needs, python, sh",  # and how many blocks there are at least
    [
        ("README.md", "torchvision", 1, 0),
        ("docs/from-pytorch.md", "transformers", 6, 2),
        ("docs/wrong-result.md", "torch", 3, 6),
    ],
)
def test_page(page, needs, python, sh, tmp_path, monkeypatch, capsys):
    pytest.importorskip(needs)
    text = (ROOT / page).read_text()
    blocks = re.findall(r"^```(python|sh)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert [kind for kind, _ in blocks].count("python") >= python and [kind for kind, _ in blocks].count("sh") >= sh
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # as where a script is run
    command = tmp_path / "bin" / "npusim"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m npusim "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    names = {"__name__": "page"}
    import npusim.torch_compile  # noqa: F401  an installed package is found by its name without this

    for kind, code in blocks:
        if kind == "python":
            exec(compile(code, page, "exec"), names)
        else:
            done = subprocess.run(["bash", "-euc", code], check=False, capture_output=True, text=True)
            assert done.returncode == 0, code + done.stdout + done.stderr
