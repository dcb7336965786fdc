"""What this machine is, and how fast it multiplies matrices.

-> torch, device, driver, memory, TFLOP/s of a product of square matrices in bf16 and fp32

    python tests/benchmarks/bench_device.py --cpu
    python tests/benchmarks/bench_device.py
"""

import platform
import shutil
import subprocess

import accelerate
import bench
import torch
from bench_training import product_flops

QUERY = "name,driver_version,memory.total,power.limit,clocks.max.sm"


def main(argv: list[str] | None = None) -> None:
    parser = bench.parser(__doc__, "--json")
    parser.add_argument("--cpu", action="store_true", help="look at the CPU even where there is a GPU")
    options = parser.parse_args(argv)
    device = torch.device("cpu" if options.cpu else "cuda")
    found: dict[str, object] = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "accelerate": accelerate.__version__,
        "threads": torch.get_num_threads(),
    }
    if device.type == "cuda":
        found["CUDA"] = torch.version.cuda
        found["GPUs"] = torch.cuda.device_count()
        found["capability"] = ".".join(map(str, torch.cuda.get_device_capability()))
        found["C compiler"] = next((name for name in ("gcc", "clang") if shutil.which(name)), "none")
        if shutil.which("nvidia-smi"):
            asked = ["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader"]
            found["nvidia-smi"] = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
            print(subprocess.run(["nvidia-smi"], capture_output=True, text=True, check=True).stdout)
    for name, precision in (("bf16", "bf16"), ("fp32", "no")):
        found[f"{name} TFLOP/s"] = product_flops(device, precision) / 1e12
    for name, value in found.items():
        print(f"{name}: {value}")
    bench.keep(options.json, found)


if __name__ == "__main__":
    main()
