#!/usr/bin/python3
"""Looks at the instructions of the backend `cuda`'s products, without a GPU.

    pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm     # into a folder on the PATH
    bench/gpu_instructions.py [--nvcc /usr/local/cuda/bin/nvcc]

Compiles the kernels for sm_90 with the options of the build, and prints a table in Markdown: registers of
a thread, shared memory of a block, and how many blocks an SM of an H200 has room for; then, of the loop over
the pieces of a product (without loops inside, which take the last piece): its instructions, its multiply-adds
(FFMA, or the tensor cores' IMMA), and what share of the unit's peak these allow if every scheduler issues one
instruction a cycle and nothing is waited for. That is a ceiling from the code, and no measurement.
"""

import argparse
import collections
import pathlib
import re
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "plugins/backends/cuda"
OPTIONS = ["-std=c++20", "-O3", "-fmad=false", "-ftz=false", "-prec-div=true", "-prec-sqrt=true"]
REGISTERS, SHARED, THREADS = 65536, 227 * 1024, 256
# Cycles of a scheduler that one instruction of a warp takes at the unit's peak (data sheet: 67 TFLOP/s of float32,
# 1979 TOP/s of int8): 32 multiply-adds at 32 a cycle, 16 x 8 x 32 at 1024 a cycle.
CYCLES = {"FFMA": 1, "IMMA": 4}


def compiled(nvcc, folder):
    """\\returns the compiled kernels, and for each its registers and bytes of shared memory."""
    binary = folder / "kernels.cubin"
    said = subprocess.run([nvcc, *OPTIONS, "-cubin", "-arch=sm_90", "-Xptxas", "-v", "-I", str(ROOT / "framework/sdk/include"),
                           "-o", str(binary), str(SOURCE / "kernels.cu")], capture_output=True, text=True, check=True).stderr
    used = {}
    for part in said.split("Compiling entry function '")[1:]:
        shared = re.search(r"(\d+) bytes smem", part)
        used[part.split("'")[0]] = (int(re.search(r"Used (\d+) registers", part).group(1)), int(shared.group(1)) if shared else 0,
                                    int(re.search(r"(\d+) bytes spill stores", part).group(1)))
    return binary, used


def instructions(binary):
    """For each kernel: its instructions, as places, names and operands."""
    listing = subprocess.run(["cuobjdump", "-sass", str(binary)], capture_output=True, text=True, check=True).stdout
    for part in listing.split("Function : ")[1:]:
        found = re.findall(r"/\*([0-9a-f]{4,5})\*/\s+(?:@!?U?P\w+\s+)?([A-Z0-9_.]+)([^;]*);", part)
        yield part.split("\n")[0].strip(), [(int(place, 16), name.split(".")[0], operands) for place, name, operands in found]


def loops(code):
    """\\returns the first and last place of each loop, from its jump back."""
    jumps = ((place, re.search(r"0x([0-9a-f]+)", operands)) for place, name, operands in code if name == "BRA")
    return [(int(to.group(1), 16), place) for place, to in jumps if to and int(to.group(1), 16) < place]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nvcc", default="nvcc")
    options = parser.parse_args()
    print("| kernel | registers | spilled bytes | shared memory | blocks of an SM | instructions of the loop | multiply-adds"
          " | ceiling |\n|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        binary, used = compiled(options.nvcc, pathlib.Path(folder))
        for kernel, code in sorted(instructions(binary)):
            unit = next((unit for unit in ("IMMA", "FFMA") if sum(name == unit for _, name, _ in code) >= 32), None)
            if unit is None or not loops(code):
                continue
            def count(span, code=code):
                return collections.Counter(name for place, name, _ in code if span[0] <= place <= span[1])
            outer = max(loops(code), key=lambda span: (count(span)[unit], span[0] - span[1]))
            inside = [span for span in loops(code) if outer[0] < span[0] and span[1] < outer[1]]
            inside = [span for span in inside if not any(other[0] <= span[0] and span[1] <= other[1] and other != span
                                                         for other in inside)]
            made = count(outer)
            for span in inside:
                made.subtract(count(span))
            if made[unit] < 32:
                continue
            registers, shared, spilled = used[kernel]
            blocks = min(REGISTERS // (THREADS * (registers + 7 & ~7)), SHARED // (shared + 1024))
            print(f"| {kernel.removeprefix('privgrad_')} | {registers} | {spilled} | {shared} | {blocks} | {made.total()} | "
                  f"{made[unit]} {unit} | {100 * CYCLES[unit] * made[unit] / made.total():.0f} % |")


if __name__ == "__main__":
    main()
