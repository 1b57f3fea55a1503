#!/usr/bin/env python3
"""What the rounding of each matrix operand to bf16 costs the chunked gated delta rule: relative errors against the fp64 recurrence.

    .venv/bin/python tools/experiments/operand_rounding.py [--rows N] [--seeds N]

Emulates the forward scan of kernels/gated_delta (chunks of 64, d = 128, fp32 sums): S, W, U, R and P are rounded to bf16 where a
product reads them, but for those that a line of the table names as exact. Needs torch; runs on the CPU.
"""
import argparse
import warnings

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
import torch

SIZE, CHUNK = 128, 64
EXACT = ["none", "S", "W", "U in the state", "R, P", "S, W", "S, W, U in the state", "S, W, U", "all"]


def bf16(x):
    return x.float().bfloat16().float()


def inputs(rows, equal_keys, beta, seed):
    torch.manual_seed(seed)
    q, k, v = (torch.randn(rows, SIZE) for _ in range(3))
    if equal_keys:
        k = k[:1].expand(rows, SIZE)
    q, k = (bf16(x / x.norm(dim=1, keepdim=True)) for x in (q, k))
    beta = torch.sigmoid(torch.randn(rows)) if beta is None else torch.full((rows,), beta)
    return q, k, bf16(v), beta, torch.full((rows,), -1e-3, dtype=torch.double)


def recurrence(q, k, v, beta, g):
    q, k, v, beta = (x.double() for x in (q, k, v, beta))
    state, out = torch.zeros(SIZE, SIZE, dtype=torch.double), []
    for t in range(len(q)):
        state = state * g[t].exp()
        state = state + torch.outer(k[t], beta[t] * (v[t] - k[t] @ state))
        out.append(q[t] @ state)
    return torch.stack(out), state


def scan(q, k, v, beta, g, exact):
    exact = {"S", "W", "U", "U in the state", "R", "P"} if exact == "all" else set(exact.split(", "))
    operand = lambda name, x: x.float() if name in exact else bf16(x)
    state, out = torch.zeros(SIZE, SIZE), []
    for first in range(0, len(q), CHUNK):
        kc, qc, vc, b = (x[first:first + CHUNK] for x in (k, q, v, beta[:, None]))
        total = g[first:first + CHUNK].cumsum(0)
        decay = (total[:, None] - total[None]).clamp(max=0).exp()
        lower = torch.tril(b.double() * (kc.double() @ kc.double().T), -1)
        inverse = torch.linalg.inv(torch.eye(len(kc), dtype=torch.double) + decay * lower)
        r = operand("R", torch.tril(inverse, -1))
        p = operand("P", torch.tril(decay * (qc.double() @ kc.double().T)))
        gamma, rest = total.exp().float()[:, None], (total[-1] - total).exp().float()[:, None]
        s = operand("S", state)
        w = b * (vc - gamma * (kc @ s))
        u = w + r @ operand("W", w)
        out.append(gamma * (qc @ s) + p @ operand("U", u))
        state_u = rest * u if exact & {"U", "U in the state"} else bf16(rest * u)
        state = total[-1].exp().float() * state + kc.T @ state_u
    return torch.cat(out), state


def relative(found, right):
    return ((found - right).norm() / right.norm()).item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    cases = [("random", None), ("equal", 0.1), ("equal", None), ("equal", 1.0)]
    names = [f"{keys} keys, beta {'sigmoid(randn)' if beta is None else beta}" for keys, beta in cases]
    print("| exact | " + " | ".join(names) + " |\n" + "|---" * (len(names) + 1) + "|")
    for exact in EXACT:
        cells = []
        for keys, beta in cases:
            errors = torch.zeros(2)
            for seed in range(options.seeds):
                x = inputs(options.rows, keys == "equal", beta, seed)
                errors += torch.tensor([relative(a, b) for a, b in zip(scan(*x, exact), recurrence(*x))]) / options.seeds
            cells.append("{:.1e}, {:.1e}".format(*errors.tolist()))
        print(f"| {exact} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
