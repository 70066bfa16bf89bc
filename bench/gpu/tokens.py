#!/usr/bin/env python3
"""A prompt and 64 steps of language models with random weights: npusim's and PyTorch's bfloat16 beside float32.

    tokens.py prepare FOLDER [--models A,B] [--target cuda:sm_90a]    anywhere: exports and compiles
    tokens.py run FOLDER LIBRARY [--device cuda:0]                    on a machine with the device and PyTorch

All are given float32's own tokens, so that each step is judged by itself. A program holds when over the 65 rows of logits
its distance to float32 is no more than PyTorch's bfloat16 (with a tenth for chance), when the likeliest token is float32's
wherever float32's first two lie further apart than a twentieth of the logits' standard deviation, when a second session
gives the same bits, and when the method that feeds itself writes the tokens that steps from the host do, up to a step that
finds two tokens as likely. Exit status 1: something does not hold. LIBRARY is libnpusim_runtime.so or libnpusim.so."""

import argparse
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

import native  # noqa: E402
import texts  # noqa: E402

STEPS, MARGIN, CHANCE = 64, 0.05, 1.1


def prompt(model: torch.nn.Module) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, model.config.vocab_size, (1, texts.PROMPT), generator=generator)


@torch.inference_mode()
def rows_of_torch(model: torch.nn.Module, ids: torch.Tensor, tokens: torch.Tensor | None) -> torch.Tensor:
    """The logits behind the prompt and behind each step, [65, vocabulary]; of the model's own likeliest tokens, where
    none are given."""
    device = model.lm_head.weight.device
    found = model(ids.to(device), use_cache=True, logits_to_keep=1)
    rows = [found.logits[0, -1]]
    for step in range(STEPS):
        token = rows[-1].argmax() if tokens is None else tokens[step].to(device)
        found = model(token.view(1, 1), past_key_values=found.past_key_values, use_cache=True)
        rows.append(found.logits[0, -1])
    return torch.stack(rows).float().cpu()


def rows_of_npusim(session: native.Session, ids: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    session.reset()
    mask, positions = texts.arguments(texts.PROMPT, 0, texts.CAPACITY)
    for name, value in (("input_ids", ids), ("attention_mask", mask), ("position_ids", positions)):
        session.set("prefill", name, value)
    session.run("prefill")
    rows = [session.get("prefill", "logits")[0, -1]]
    for step in range(STEPS):
        rows.append(step_of(session, tokens[step], texts.PROMPT + step))
    return torch.stack(rows).float()


def step_of(session: native.Session, token: torch.Tensor, position: int) -> torch.Tensor:
    mask, positions = texts.arguments(1, position, texts.CAPACITY)
    for name, value in (("input_ids", token.view(1, 1)), ("attention_mask", mask), ("position_ids", positions)):
        session.set("decode", name, value)
    session.run("decode")
    return session.get("decode", "logits")[0, -1]


def distance(found: torch.Tensor, expected: torch.Tensor) -> tuple[float, float]:
    a, b = found.double().flatten(), expected.double().flatten()
    r = torch.corrcoef(torch.stack([a, b]))[0, 1].item()
    return 1 - r, ((a - b).norm() / b.norm()).item()


def judge(name: str, program: Path, folder: Path, library: Path, device: str) -> bool:
    on = device if device.startswith("cuda") else "cpu"
    model = texts.build(name, on)
    ids = prompt(model)
    weights = texts.weights(name, folder, model)
    narrow = model
    wide = texts.build(name, on).float()
    expected = rows_of_torch(wide, ids, None)
    del wide
    tokens = expected.argmax(-1)
    theirs = rows_of_torch(narrow, ids, tokens)
    session = native.Session(library, program, weights, device)
    found = rows_of_npusim(session, ids, tokens)
    session.close()
    session = native.Session(library, program, weights, device)
    same = torch.equal(found, rows_of_npusim(session, ids, tokens))
    loop = fed_by_itself(session, ids)
    session.close()
    two = expected.topk(2, -1).values
    clear = (two[:, 0] - two[:, 1]) > MARGIN * expected.std(-1)
    (r, error), (_, bar) = distance(found, expected), distance(theirs, expected)
    differ = int((found.argmax(-1) != tokens)[clear].sum())
    differ_theirs = int((theirs.argmax(-1) != tokens)[clear].sum())
    good = error <= CHANCE * bar and differ == 0 and same and "OTHERS" not in loop
    print(
        f"{program.stem}: {'holds' if good else 'DOES NOT HOLD'}; relative L2 {error:.2e} (PyTorch's {bar:.2e}), 1-r {r:.1e}; "
        f"tokens: {differ} of {int(clear.sum())} clear ones differ (PyTorch's {differ_theirs}); same bits again: {same}; "
        f"the loop's tokens: {loop}",
        flush=True,
    )
    return good


def fed_by_itself(session: native.Session, ids: torch.Tensor) -> str:
    """How far the method that feeds itself writes the tokens that steps from the host do. It attends to the keys that
    there are, not to a mask: where the two differ first, the host's step must have found both tokens as likely."""
    zeros = torch.zeros(STEPS, dtype=torch.long)
    first = rows_of_npusim(session, ids, zeros)[0].argmax()
    token, rows = first, []
    for step in range(STEPS):
        rows.append(step_of(session, token, texts.PROMPT + step).float())
        token = rows[-1].argmax()
    rows_of_npusim(session, ids, zeros)
    session.set("greedy", "input_ids", first.view(1, 1))
    session.set("greedy", "position_ids", torch.tensor([[texts.PROMPT]]))
    for step, row in enumerate(rows):
        session.run("greedy")
        found = session.get("greedy", "logits")[0, -1].float().argmax()
        if found != row.argmax():
            near = row.max() - row[found] <= MARGIN * row.std()
            return f"{'as likely' if near else 'OTHERS'} from step {step} on"
    return "the same"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["prepare", "run"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("runtime", type=Path, nargs="?", metavar="LIBRARY")
    parser.add_argument("--models", default=",".join(texts.SHAPES))
    parser.add_argument("--target", default="cuda:sm_90a")
    parser.add_argument("--device", default="cuda:0")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    good = True
    for name in given.models.split(","):
        if given.verb == "prepare":
            texts.prepare(name, given.folder, given.target)
        else:
            torch.backends.cuda.matmul.allow_tf32 = False
            good &= judge(name, given.folder / f"{name}.npubin", given.folder, given.runtime, given.device)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
