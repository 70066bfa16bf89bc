"""The tables of a family of models from the lines that a sweep found: its own, and its row in the summary. Models that
this sweep did not judge stay as the page has them."""

import datetime
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from case import PROGRAMS, worst_state
from whole import write_whole

Line = dict[str, Any]


def write(family: str, lines: dict[str, Line], known: int, to: Path) -> None:
    lines = (read(to.read_text()) if to.exists() else {}) | lines
    made = {name: line for name, line in sorted(lines.items()) if line["state"] != "not made"}
    to.parent.mkdir(parents=True, exist_ok=True)
    write_whole(to, "\n".join([*head(family, made, known), *groups(made), *rows(made), *not_made(lines)]) + "\n")
    summary = to.parent / "README.md"
    write_whole(summary, re.sub(rf"(?m)^\| \[{family}\].*$", lambda _: summed(family, made, known), summary.read_text()))
    print(f"{to}: {len(made)} models")


def read(page: str) -> dict[str, Line]:
    """The lines that a page was made of, as far as it has them."""
    lines: dict[str, Line] = {}
    for row in re.findall(r"(?m)^\| (.*) \|$", page):
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row)]
        if len(cells) != 4 + len(PROGRAMS) or cells[0] in ("model", "--:"):
            continue
        name, group, *programs, commit, reason = cells
        reason, _, parts = reason.partition(IN_PARTS)
        line = lines[name] = {"group": group, "programs": {}}
        line |= {"commit": commit} if commit else {}
        line |= {"why": reason} if reason else {}
        for program, text in zip(PROGRAMS, programs, strict=True):
            state, error, own = re.fullmatch(r"([a-z ]*?) ?(\d\S*)?(?: / (\S+))?", text).groups()
            judged = line["programs"][program] = {"state": state or "right"}
            if error:
                judged |= {"error": float(error), "own": float(own) if own else None}
            if error or state == "unstable":  # a run that ended at a size that rounding decides has no error
                judged["targets"] = parts.split(", ") if parts else ["cpu"]
        line["state"] = worst_state([judged["state"] for judged in line["programs"].values()])
    for name, reason in re.findall(r"(?m)^- (\S+): (.*)$", page):
        lines[name] = {"state": "not made", "why": reason.replace("\\|", "|")}
    return lines


def summed(family: str, made: dict[str, Line], known: int) -> str:
    states = Counter(line["state"] for line in made.values() if line["state"] != "right")
    others = ", ".join(f"{count} {state}" for state, count in states.most_common())
    cells = [f"[{family}]({family}.md)", known, *counts(list(made.values())), others]
    return "| " + " | ".join(map(str, cells)) + " |"


def head(family: str, made: dict[str, Line], known: int) -> list[str]:
    versions = next((line["versions"] for line in made.values() if "versions" in line), {})
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    return [
        f"# Models of {family}",
        "",
        f"{datetime.date.today().isoformat()}, {named}. Made by `bench/models/sweep.py {family} --report`; what a model is",
        "judged by is in [bench/models](../../bench/models/README.md): small sizes, random weights, four programs each.",
        "Errors are the worst output's relative L2 against float64 eager, with PyTorch's own in the same dtype behind the",
        "slash. `cast` is the model in bfloat16, exported as such. Not exported: torch.export itself raises. Rows without a",
        f"commit are older: {of_commits(made)}.",
        f"Judged: {len(made)} of the {known} architectures that the sweep has; those that it cannot make stand at the end.",
        "",
    ]


def of_commits(made: dict[str, Line]) -> str:
    found = Counter(line.get("commit") for line in made.values())
    return ", ".join(f"{count} of {commit or 'earlier ones'}" for commit, count in found.most_common())


def counts(lines: list[Line]) -> list[int]:
    """Models, exported, compiled, wholly on the device, right."""
    exported = [line for line in lines if line["state"] != "not exported"]
    programs = [[p for p in line.get("programs", {}).values() if p["state"] != "not exported"] for line in exported]
    compiled = [ps for ps in programs if ps and all("targets" in p and p["state"] != "refused" for p in ps)]
    wholly = [ps for ps in compiled if all(len(p["targets"]) == 1 for p in ps)]
    right = [line for line in exported if line["state"] == "right"]
    return [len(lines), len(exported), len(compiled), len(wholly), len(right)]


def groups(made: dict[str, Line]) -> list[str]:
    table = ["| group | models | exported | compiled | wholly on the device | right |", "|---|--:|--:|--:|--:|--:|"]
    for group in sorted({line["group"] for line in made.values()}):
        found = counts([line for line in made.values() if line["group"] == group])
        table.append(f"| {group} | " + " | ".join(map(str, found)) + " |")
    table.append("| all | " + " | ".join(map(str, counts(list(made.values())))) + " |")
    states = Counter(line["state"] for line in made.values())
    return [*table, "", ", ".join(f"{count} {state}" for state, count in states.most_common()) + ".", ""]


def rows(made: dict[str, Line]) -> list[str]:
    table = ["| model | group | float32 | auto | bfloat16 | cast | commit | why not |"]
    table.append("|---|---|--:|--:|--:|--:|---|---|")
    for name, line in made.items():
        programs = line.get("programs", {})
        cells = [cell(programs.get(program, {})) for program in PROGRAMS]
        table.append(f"| {name} | {line['group']} | " + " | ".join([*cells, line.get("commit", ""), why(line)]) + " |")
    return table


def not_made(lines: dict[str, Line]) -> list[str]:
    """Of which the sweep found no configuration or no arguments, and the first error of those that it tried."""
    found = {name: line for name, line in sorted(lines.items()) if line["state"] == "not made"}
    if not found:
        return []
    reasons = [f"- {name}: {why(line)}" for name, line in found.items()]
    return ["", "Not made, and the first thing that was wrong:", "", *reasons]


def cell(program: Line) -> str:
    if "error" not in program:
        return program.get("state", "")
    own = f" / {program['own']:.0e}" if program.get("own") is not None else ""
    state = "" if program["state"] == "right" else f"{program['state']} "
    return f"{state}{program['error']:.0e}{own}"


def why(line: Line) -> str:
    found = line.get("why") or next((p["why"] for p in line.get("programs", {}).values() if "why" in p), "")
    if not found and "fixed" in line:
        found = f"part of the program: {', '.join(line['fixed'])}"
    if not found and line.get("made_for"):
        found = "made for sizes or branches of the example"
    parts = next((p["targets"] for p in line.get("programs", {}).values() if len(p.get("targets", ())) > 1), [])
    return " ".join(found.split())[:120].strip().replace("|", "\\|") + (IN_PARTS + ", ".join(parts) if parts else "")


IN_PARTS = " runs on "
