"""Writes safetensors files of named tensors, whole or broken: the inputs of `haypile inspect`.

make: tensors PATH NAME=DTYPE:SHAPE[:VALUE,...] ...
  NAME may hold a range, {0-3}, which stands for each number; the same range at several places moves together.
  SHAPE is "" (a scalar), "8" or "8x1x1". Values repeat until the tensor is full; without them it is zeros (weights).
  @header=N writes N as the header's length, @truncate=N cuts the file.
"""

import json
import math
import pathlib
import re
import struct

BYTES = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2, "F8_E4M3": 1, "U8": 1, "I32": 4}


def expanded(name):
    found = re.search(r"\{(\d+)-(\d+)\}", name)
    if not found:
        return [name]
    return [name.replace(found.group(0), str(n)) for n in range(int(found.group(1)), int(found.group(2)) + 1)]


def encoded(dtype, value):
    if dtype == "F64":
        return struct.pack("<d", value)
    if dtype == "F32":
        return struct.pack("<f", value)
    if dtype == "F16":
        return struct.pack("<e", value)
    if dtype == "BF16":
        return struct.pack("<f", value)[2:]  # cut, not rounded: write values that BF16 holds
    return int(value).to_bytes(BYTES[dtype], "little")


def tensor_bytes(dtype, shape, values):
    count = math.prod(shape)
    if not values:
        return bytes(count * BYTES[dtype])
    codes = [encoded(dtype, float(v)) for v in values]
    return b"".join(codes[i % len(codes)] for i in range(count))


def write_tensors(path, edits):
    header, data = {}, b""
    for pattern, spec in edits.items():
        if pattern.startswith("@"):
            continue
        dtype, shape_text, values = (spec.split(":") + [""])[:3]
        shape = [int(extent) for extent in shape_text.split("x") if extent]
        for name in expanded(pattern):
            body = tensor_bytes(dtype, shape, values.split(",") if values else [])
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(body)]}
            data += body
    text = json.dumps(header).encode()
    content = struct.pack("<Q", int(edits.get("@header", len(text)))) + text + data
    target = pathlib.Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content[: int(edits.get("@truncate", len(content)))])
