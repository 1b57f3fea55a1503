#!/usr/bin/env python3
"""How far several scorings of one teacher's heads agree.

    tools/experiments/rank_stability.py [LABEL=]SCORES.json [LABEL=]SCORES.json ... [--top 1,6,12] [--out FILE.json]

Prints a Markdown table: for every pair of files Spearman's rank correlation of all heads' scores (ties share their mean rank) and the Jaccard
index of the K best heads (by score, then effect, then attribution, as plans are made); then the mean over all pairs. `--out` writes
the same as JSON. A file that is no scores.json, or of another teacher, is refused (status 2). Only the standard library is used.
"""
import argparse
import itertools
import json
import math
import pathlib
import statistics
import sys


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scores", nargs="+", metavar="[LABEL=]SCORES.json")
    parser.add_argument("--top", default="1,6,12", help="numbers of best heads to compare")
    parser.add_argument("--out", type=pathlib.Path, help="JSON of the table")
    return parser.parse_args()


def refuse(message):
    print(f"rank_stability: {message}", file=sys.stderr)
    sys.exit(2)


def read(argument):
    """(label, teacher, {(layer, head): (score, effect, attribution)})"""
    label, _, path = ("", "", argument) if pathlib.Path(argument).is_file() else argument.rpartition("=")
    try:
        report = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        refuse(f"{path}: {error}")
    if not isinstance(report, dict) or report.get("format") != "hydrahead scores 1":
        refuse(f"{path}: expected the format 'hydrahead scores 1'")
    try:
        heads = {(layer, head): tuple(float(x[key]) for key in ("score", "effect", "attribution"))
                 for layer, row in enumerate(report["scores"]) for head, x in enumerate(row)}
        if not all(math.isfinite(value) for values in heads.values() for value in values):
            raise ValueError("a value is not finite")
        return label or path, report["teacher_sha256"], heads
    except (KeyError, TypeError, ValueError) as error:
        refuse(f"{path}: not as 'hydrahead select' writes it: {error!r}")


def mean_ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    for _, tied in itertools.groupby(enumerate(order), key=lambda place: values[place[1]]):
        tied = list(tied)
        for _, index in tied:
            ranks[index] = (tied[0][0] + tied[-1][0]) / 2
    return ranks


def spearman(a, b):
    """None where all heads of one file have the same score."""
    ranks = [mean_ranks([heads[head][0] for head in sorted(heads)]) for heads in (a, b)]
    if any(len(set(r)) == 1 for r in ranks):
        return None
    return statistics.correlation(*ranks)


def best(heads, count):
    return set(sorted(heads, key=lambda head: (*(-x for x in heads[head]), head))[:count])


def jaccard(a, b, count):
    x, y = best(a, count), best(b, count)
    return len(x & y) / len(x | y)


def main():
    options = arguments()
    if len(options.scores) < 2:
        refuse("expected at least two files")
    files = [read(argument) for argument in options.scores]
    for label, teacher, heads in files[1:]:
        if teacher != files[0][1] or heads.keys() != files[0][2].keys():
            refuse(f"{label}: scores of another teacher than {files[0][0]}'s")
    try:
        tops = [int(word) for word in options.top.split(",")]
    except ValueError:
        tops = []
    if not tops or min(tops) < 1 or max(tops) > len(files[0][2]):
        refuse(f"--top: expected numbers from 1 to {len(files[0][2])}, found {options.top}")
    rows = [{"a": a, "b": b, "spearman": spearman(x, y), **{f"top {k}": jaccard(x, y, k) for k in tops}}
            for (a, _, x), (b, _, y) in itertools.combinations(files, 2)]
    columns = ["spearman", *(f"top {k}" for k in tops)]
    known = {c: [row[c] for row in rows if row[c] is not None] for c in columns}
    mean = {c: statistics.fmean(x) if x else None for c, x in known.items()}
    print("| scores | and | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 2) + "|")
    for row in [*rows, {"a": "mean", "b": f"{len(rows)} pairs", **mean}]:
        cells = ["–" if row[c] is None else f"{row[c]:.2f}" for c in columns]
        print(f"| {row['a']} | {row['b']} | " + " | ".join(cells) + " |")
    if options.out:
        try:
            options.out.write_text(json.dumps({"pairs": rows, "mean": mean}, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            refuse(f"--out: {error}")


if __name__ == "__main__":
    main()
