"""Continues a text with a small trained Qwen2 that writes source code, token by token, without PyTorch.

    python examples/python/continue_text.py "def main("
"""
import sys
from pathlib import Path

import npusim

MODEL = Path(__file__).parents[1] / "models" / "tinyqwen"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    program = npusim.compile(
        {"prefill": MODEL / "prefill_ir.json", "decode": MODEL / "decode_ir.json"}, kv_map=MODEL / "kv_mapping.json"
    )
    session = npusim.Session(program, MODEL / "model.safetensors")
    tokenizer = npusim.Tokenizer(MODEL / "tokenizer.json")
    prompt = tokenizer.encode(sys.argv[1])
    print(sys.argv[1], end="", flush=True)
    found = npusim.generate(
        session,
        prompt,
        max_new_tokens=48,
        stop_tokens=tokenizer.stop_tokens,
        on_token=lambda token: print(tokenizer.decode([token]), end="", flush=True),
    )
    print(f"\n{len(found.tokens)} tokens, {found.decode_ms_per_token:.2f} ms for each", file=sys.stderr)


if __name__ == "__main__":
    main()
