"""Training of the same GPTs by PyTorch: GPT-2's architecture, float32, its own fused attention and AdamW, clipping.

  torch_gpt.py --threads 2,1 --models gpt_4x128:20:60,...      one process, for each number of threads
  torch_gpt.py --ranks 2 --models ...                          that many DDP ranks over Gloo, of one thread each

prints one JSON object a model and mode: {"model", "mode", "tokens_per_second", "tokens_per_second_mean"}, by the median
step and by the mean one, each from the end of the one before. MODEL:WARM:STEPS are steps before and in the timing.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

SHAPES = {"gpt_4x128": (4, 4, 128, 64, 12),
          "gpt_6x384": (6, 6, 384, 256, 8)}  # layers, heads, channels, context, global batch
VOCAB = 65


class Block(nn.Module):
    def __init__(self, heads, channels):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.c_attn, self.c_proj = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)
        self.c_fc, self.mlp_proj = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)

    def forward(self, x):
        rows, positions, channels = x.shape
        q, k, v = (part.view(rows, positions, self.heads, -1).transpose(1, 2)
                   for part in self.c_attn(self.ln_1(x)).split(channels, dim=2))
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(attended.transpose(1, 2).reshape(rows, positions, channels))
        return x + self.mlp_proj(functional.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, heads, channels, context):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCAB, channels), nn.Embedding(context, channels)
        self.blocks = nn.ModuleList(Block(heads, channels) for _ in range(layers))
        self.ln_f = nn.LayerNorm(channels)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight
        for block in self.blocks:
            x = block(x)
        logits = functional.linear(self.ln_f(x), self.wte.weight)
        return functional.cross_entropy(logits.view(-1, VOCAB), targets.view(-1))


def tokens_per_second(name, warm, steps, rank=0, ranks=1):
    """By the median step, and by the mean one."""
    layers, heads, channels, context, batch = SHAPES[name]
    torch.manual_seed(1)
    model = Gpt(layers, heads, channels, context)
    if ranks > 1:
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1, fused=True)
    torch.manual_seed(2 + rank)
    windows = torch.randint(VOCAB, (16, batch // ranks, context + 1))
    ends = []
    for step in range(warm + steps):
        if step == warm:
            if ranks > 1:
                dist.barrier()
            ends.append(time.perf_counter())
        window = windows[step % len(windows)]
        optimizer.zero_grad(set_to_none=True)
        loss = model(window[:, :-1], window[:, 1:].contiguous())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()
        if step >= warm:
            ends.append(time.perf_counter())
    seconds = [end - start for start, end in zip(ends, ends[1:])]
    return batch * context / statistics.median(seconds), batch * context / statistics.mean(seconds)


def report(model, mode, rates):
    print(json.dumps({"model": model, "mode": mode, "tokens_per_second": rates[0], "tokens_per_second_mean": rates[1]}),
          flush=True)


def rank_main(arguments, models):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{arguments.meet}", rank=arguments.rank,
                            world_size=arguments.ranks)
    for name, warm, steps in models:
        rates = tokens_per_second(name, warm, steps, arguments.rank, arguments.ranks)
        if arguments.rank == 0:
            report(name, f"{arguments.ranks} ranks", rates)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", required=True)
    parser.add_argument("--threads", default="")
    parser.add_argument("--ranks", type=int, default=0)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--meet")
    arguments = parser.parse_args()
    models = [(name, int(warm), int(steps))
              for name, warm, steps in (item.split(":") for item in arguments.models.split(","))]
    if arguments.rank is not None:
        return rank_main(arguments, models)
    if arguments.ranks:
        with tempfile.TemporaryDirectory(prefix="tp-") as folder:
            own = [sys.executable, __file__, *sys.argv[1:], "--meet", os.path.join(folder, "meet"), "--rank"]
            ranks = [subprocess.Popen([*own, str(rank)]) for rank in range(arguments.ranks)]
            return max(rank.wait() for rank in ranks)
    for threads in map(int, arguments.threads.split(",")):
        torch.set_num_threads(threads)
        for name, warm, steps in models:
            report(name, f"{threads} thread{'s' if threads > 1 else ''}", tokens_per_second(name, warm, steps))
    return 0


if __name__ == "__main__":
    sys.exit(main())
