#!/usr/bin/env python3
"""What the choice of heads is worth: one training budget, many head plans, one table.

    tools/experiments/head_choice.py tools/experiments/nano.json --out runs/heads-nano [--jobs N] [--only REGEX]

A table file names the base config, the evaluations and the rows; every row is a head plan with a recipe and seeds, and every
seed is a run of `hydrahead train` and `eval` in a directory of its own. Only the standard library is used. Runs that are done are
not done again; after a signal or a time limit the same command goes on. Writes OUT/table.md and OUT/table.json of what is there.

Table file (JSON): config (path beside the file), select [key=value, ...] (the teacher's heads are scored first, with these
settings), evals {name: {verb: niah | ppl, and its options}}, rows [{label, seeds, and one of: heads [[layer, head], ...] | rule +
fa_ratio | teacher: true; method (a select.method of the row's own); set [key=value, ...]}], vary (optional) {key, values}: every
row but the teacher's once for each value of a config key.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULT = {"niah": "summary.json", "ppl": "ppl.json"}
stop = threading.Event()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--jobs", type=int, default=1, help="runs at once; on a GPU they share the card")
    parser.add_argument("--only", default="", help="rows whose label matches this regular expression")
    parser.add_argument("--evals", default="", help="evaluations whose name matches this regular expression")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for every verb, over the table")
    parser.add_argument("--seconds", type=float, default=0, help="stop after so long, as after a signal; 0: no limit")
    parser.add_argument("--table-only", action="store_true", help="run nothing; make the table of what is there")
    parser.add_argument("--binary", default=str(ROOT / "build/release/hydrahead"))
    return parser.parse_args()


def pairs(overrides):
    return [word for override in overrides for word in ("--set", override)]


class Work:
    """Runs hydrahead with the table's settings; one log file a run."""

    def __init__(self, options, table):
        self.options, self.table = options, table
        self.config = options.table.parent / table["config"]
        self.environment = dict(os.environ)
        self.environment.setdefault("OMP_NUM_THREADS", str(max(1, os.cpu_count() // options.jobs)))

    def hydrahead(self, directory, *words, overrides=()):
        command = [self.options.binary, *map(str, words), "--config", str(self.config)]
        command += pairs([*overrides, *self.options.set])
        directory.mkdir(parents=True, exist_ok=True)
        with open(directory / "log.txt", "a") as log:
            print("$", *command, file=log, flush=True)
            process = subprocess.Popen(command, stdout=log, stderr=log, env=self.environment)
            while process.poll() is None:
                if stop.wait(0.05):
                    process.terminate()  # saves, and ends with status 75
                    process.wait()
        if stop.is_set():
            raise InterruptedError
        if process.returncode != 0:
            tail = (directory / "log.txt").read_text().splitlines()[-8:]
            raise RuntimeError(f"{' '.join(command)}: exit status {process.returncode}\n  " + "\n  ".join(tail))

    def teacher(self):
        """The teacher directory: an override, or the config's key, relative to the config file."""
        for override in self.options.set:
            if override.startswith("teacher="):
                return pathlib.Path(override.partition("=")[2])
        line = re.search(r"^teacher:\s*(\S+)", self.config.read_text(), re.MULTILINE)
        return self.config.parent / line.group(1)


def rows_of(table):
    """The table's rows, one for each value of `vary` where it is there."""
    vary = table.get("vary")
    if vary is None:
        return table["rows"]
    rows = []
    for row in table["rows"]:
        if row.get("teacher"):
            rows.append(row)
            continue
        rows += [{**row, "label": f"{row['label']}, {value}", "series": row["label"], "value": value,
                  "set": [*row.get("set", []), f"{vary['key']}={value}"]} for value in vary["values"]]
    return rows


def scores_directory(work, row):
    return work.options.out / ("select-" + row["method"] if "method" in row else "select")


def select(work, rows):
    if "select" not in work.table:
        return
    for row in rows:
        directory = scores_directory(work, row)
        if not row.get("teacher") and not (directory / "scores.json").exists():
            method = [f"select.method={row['method']}"] if "method" in row else []
            work.hydrahead(work.options.out, "select", "--model", work.teacher(), "--out", directory,
                           overrides=work.table["select"] + method)


def run_directory(options, row, seed):
    return options.out / f"{re.sub(r'[^A-Za-z0-9.]+', '-', row['label']).strip('-')}-seed{seed}"


def plan_overrides(work, row, directory):
    if "heads" in row:
        layers = json.loads((work.teacher() / "config.json").read_text())["num_hidden_layers"]
        lists = [sorted(h for layer, h in row["heads"] if layer == index) for index in range(layers)]
        (directory / "heads.yaml").write_text(f"version: 1\nrule: list\nheads: {json.dumps(lists)}\n")
        return [f"heads.plan={directory / 'heads.yaml'}"]
    scores = [f"heads.scores={scores_directory(work, row) / 'scores.json'}"] if "select" in work.table else []
    return [f"heads.rule={row['rule']}", f"heads.fa_ratio={row['fa_ratio']}", *scores]


def model_directory(work, row, directory):
    if row.get("teacher"):
        return work.teacher()
    finals = [directory / "run" / stage / "final" for stage in ("long_context", "distill", "align")]
    return next((path for path in finals if path.exists()), None)


def run(work, row, seed):
    directory = run_directory(work.options, row, seed)
    directory.mkdir(parents=True, exist_ok=True)
    done = directory / "trained"
    start = time.monotonic()
    if not row.get("teacher") and not done.exists():
        overrides = [f"run_dir={directory / 'run'}", f"seed={seed}", "eval.after=[]", *plan_overrides(work, row, directory)]
        work.hydrahead(directory, "train", "--resume", overrides=overrides + row.get("set", []))
        done.write_text(f"{time.monotonic() - start:.1f} s\n")
    model = model_directory(work, row, directory)
    for name, evaluation in work.table["evals"].items():
        out = directory / name.replace(" ", "-")
        if re.search(work.options.evals, name) and not (out / RESULT[evaluation["verb"]]).exists():
            words = {key: ",".join(map(str, value)) if isinstance(value, list) else value for key, value in evaluation.items()}
            flags = [f"--{key.replace('_', '-')}" + ("" if value is True else f"={value}")
                     for key, value in words.items() if key != "verb"]
            work.hydrahead(directory, "eval", evaluation["verb"], "--model", model, "--out", out, *flags)
    return time.monotonic() - start


def result(work, row, seed):
    """Every figure of one run that is there: scores by (evaluation, length), loss, heads."""
    directory, values, cells = run_directory(work.options, row, seed), {}, []
    for name, evaluation in work.table["evals"].items():
        file = directory / name.replace(" ", "-") / RESULT[evaluation["verb"]]
        if not file.exists():
            continue
        found = json.loads(file.read_text())
        if evaluation["verb"] == "ppl":
            values[name] = [found["results"][0]["loss"]]
        for cell in found.get("cells", []):
            if cell.get("score") is not None:
                cells.append({"eval": name, **{key: cell[key] for key in ("task", "length", "samples", "score")}})
                values.setdefault(f"{name} {cell['length']}", []).append(cell["score"])
    figures = {column: sum(of_tasks) / len(of_tasks) for column, of_tasks in values.items()}
    model, heads = model_directory(work, row, directory), None
    if model is not None and not row.get("teacher"):
        heads = json.loads((model / "config.json").read_text())["fa_heads"]
    place = {key: row[key] for key in ("series", "value") if key in row}
    return {"label": row["label"], **place, "seed": seed, "fa_heads": heads, "figures": figures, "cells": cells}


def cell_text(values, digits):
    if not values:
        return "-"
    mean, low, high = sum(values) / len(values), min(values), max(values)
    text = f"{mean:.{digits}f}"
    spread = f" ({low:.{digits}f} to {high:.{digits}f})"
    return text + spread if f"{low:.{digits}f}" != f"{high:.{digits}f}" else text


def write_table(work, rows):
    results = [[result(work, row, seed) for seed in row.get("seeds", [0])] for row in rows]
    columns = []
    for each in (one for group in results for one in group):
        columns += [column for column in each["figures"] if column not in columns]
    digits = {column: 3 if work.table["evals"].get(column, {}).get("verb") == "ppl" else 0 for column in columns}
    lines = ["| heads | full | runs | " + " | ".join(columns) + " |", "|---" * (len(columns) + 3) + "|"]
    for row, group in zip(rows, results):
        there = [one for one in group if one["figures"]]
        if there:
            heads = there[0]["fa_heads"]
            count = "all" if heads is None else str(sum(map(len, heads)))
            cells = [cell_text([o["figures"][c] for o in there if c in o["figures"]], digits[c]) for c in columns]
            lines.append(f"| {row['label']} | {count} | {len(there)} | " + " | ".join(cells) + " |")
    text = "\n".join(lines) + "\n"
    (work.options.out / "table.md").write_text(text)
    flat = [one for group in results for one in group if one["figures"]]
    (work.options.out / "table.json").write_text(json.dumps({"table": str(work.options.table), "runs": flat}, indent=1) + "\n")
    print("\n" + text)


def main():
    options = arguments()
    table = json.loads(options.table.read_text())
    options.out.mkdir(parents=True, exist_ok=True)
    options.out, options.table = options.out.resolve(), options.table.resolve()
    work = Work(options, table)
    every_row = rows_of(table)
    rows = [row for row in every_row if re.search(options.only, row["label"])]
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    if options.seconds > 0:
        threading.Timer(options.seconds, stop.set).start()
    failures = []
    if not options.table_only:
        select(work, rows)
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            jobs = {pool.submit(run, work, row, seed): f"{row['label']}, seed {seed}"
                    for row in rows for seed in row.get("seeds", [0])}
            for job in concurrent.futures.as_completed(jobs):
                if job.cancelled() or isinstance(job.exception(), InterruptedError):
                    pool.shutdown(wait=False, cancel_futures=True)
                elif job.exception() is not None:
                    failures.append(f"{jobs[job]}: {job.exception()}")
                    print(failures[-1], file=sys.stderr, flush=True)
                else:
                    print(f"{jobs[job]}: done after {job.result():.0f} s", flush=True)
    write_table(work, every_row)
    sys.stdout.flush()
    os._exit(1 if failures else 75 if stop.is_set() else 0)  # not waiting for the timer


if __name__ == "__main__":
    main()
