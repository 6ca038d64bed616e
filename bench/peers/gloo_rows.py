"""All-reduces of float by Gloo through torch.distributed, counted as ours: one JSON object a size. Starts its own
ranks."""
import argparse
import json
import statistics
import subprocess
import sys
import time

import torch
import torch.distributed as dist


def median_of_slowest(seconds):
    times = torch.tensor(seconds, dtype=torch.float64)
    dist.all_reduce(times, op=dist.ReduceOp.MAX)
    return statistics.median(times.tolist())


def measure(size, iterations, rank):
    data, times = torch.ones(size // 4, dtype=torch.float32), []
    for _ in range(3):
        dist.all_reduce(data)
    data.fill_(1)
    for _ in range(iterations):
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(data)
        times.append(time.perf_counter() - start)
    dist.barrier()
    start = time.perf_counter()
    for _ in range(iterations):
        dist.all_reduce(data)
    mean = [(time.perf_counter() - start) / iterations]
    line = {"bytes": size, "median": median_of_slowest(times), "back_to_back": median_of_slowest(mean)}
    if rank == 0:
        print(json.dumps(line), flush=True)


def rank_main(arguments):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{arguments.meet}", rank=arguments.rank,
                            world_size=arguments.ranks)
    for item in arguments.sizes.split(","):
        size, iterations = map(int, item.split(":"))
        measure(size, iterations, arguments.rank)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--sizes", required=True, help="BYTES:ITERATIONS,...")
    parser.add_argument("--meet", required=True, help="a file that does not exist yet")
    parser.add_argument("--rank", type=int)
    arguments = parser.parse_args()
    if arguments.rank is not None:
        return rank_main(arguments)
    ranks = [
        subprocess.Popen([sys.executable, __file__, *sys.argv[1:], "--rank",
                          str(rank)]) for rank in range(arguments.ranks)
    ]
    return max(rank.wait() for rank in ranks)


if __name__ == "__main__":
    sys.exit(main())
