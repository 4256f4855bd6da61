"""Writes tiny models of the llama family (2 layers, hidden 128, 2 query and 1 KV heads of 64, context 256, random
weights, a byte-level tokenizer) as a GGUF file or a Hugging Face folder, whole or broken in a named way.

Edits, all optional: truncate=BYTES, magic=TEXT, version=N, tensors=N (the count in the header), architecture=NAME,
dtype=N (the type number of the first tensor), offset=N (where the first tensor claims to lie), drop=TENSOR, empty=NAME
(a file of the folder made zero bytes long), config=TEXT (the whole config.json), context=N, kv_scales=V (k_scale and
v_scale tensors of that value in the folder's layers; for=modelopt names them k_proj.k_scale and v_proj.v_scale),
quantization=TEXT (quantization_config of config.json), hf_quant=TEXT (the file hf_quant_config.json).
"""

import json
import pathlib
import random
import struct

ALIGNMENT = 32
F32, F16 = 0, 1
UINT32, FLOAT32, STRING, ARRAY, INT32 = 4, 6, 8, 9, 5
HIDDEN, FEED_FORWARD, QUERY_HEADS, KV_HEADS, HEAD_DIM, LAYERS = 128, 128, 2, 1, 64, 2


def byte_alphabet():
    """The printable character of each byte in byte-level BPE."""
    printable = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    table, extra = {}, 256
    for byte in range(256):
        if byte in printable:
            table[byte] = chr(byte)
        else:
            table[byte] = chr(extra)
            extra += 1
    return [table[byte] for byte in range(256)]


TOKENS = byte_alphabet() + ["he", "<|endoftext|>"]


def tensor_shapes():
    """(GGUF name, Hugging Face name, shape [out][in]) of each tensor."""
    yield "token_embd.weight", "model.embed_tokens.weight", (len(TOKENS), HIDDEN)
    for n in range(LAYERS):
        gguf, ours = f"blk.{n}.", f"model.layers.{n}."
        yield gguf + "attn_norm.weight", ours + "input_layernorm.weight", (HIDDEN,)
        yield gguf + "attn_q.weight", ours + "self_attn.q_proj.weight", (QUERY_HEADS * HEAD_DIM, HIDDEN)
        yield gguf + "attn_k.weight", ours + "self_attn.k_proj.weight", (KV_HEADS * HEAD_DIM, HIDDEN)
        yield gguf + "attn_v.weight", ours + "self_attn.v_proj.weight", (KV_HEADS * HEAD_DIM, HIDDEN)
        yield gguf + "attn_output.weight", ours + "self_attn.o_proj.weight", (HIDDEN, QUERY_HEADS * HEAD_DIM)
        yield gguf + "ffn_norm.weight", ours + "post_attention_layernorm.weight", (HIDDEN,)
        yield gguf + "ffn_gate.weight", ours + "mlp.gate_proj.weight", (FEED_FORWARD, HIDDEN)
        yield gguf + "ffn_up.weight", ours + "mlp.up_proj.weight", (FEED_FORWARD, HIDDEN)
        yield gguf + "ffn_down.weight", ours + "mlp.down_proj.weight", (HIDDEN, FEED_FORWARD)
    yield "output_norm.weight", "model.norm.weight", (HIDDEN,)


def elements(shape):
    count = 1
    for extent in shape:
        count *= extent
    return count


def values(shape, generator):
    if len(shape) == 1:
        return [1.0] * shape[0]
    return [generator.uniform(-0.1, 0.1) for _ in range(elements(shape))]


def gguf_string(text):
    data = text.encode("utf-8")
    return struct.pack("<Q", len(data)) + data


def gguf_pair(key, kind, value):
    head = gguf_string(key) + struct.pack("<I", kind)
    if kind == STRING:
        return head + gguf_string(value)
    if kind == ARRAY:
        element_kind, items = value
        body = struct.pack("<IQ", element_kind, len(items))
        for item in items:
            body += gguf_string(item) if element_kind == STRING else struct.pack("<i", item)
        return head + body
    return head + struct.pack({UINT32: "<I", FLOAT32: "<f"}[kind], value)


def gguf_metadata(architecture, context):
    prefix = architecture + "."
    return [
        gguf_pair("general.architecture", STRING, architecture),
        gguf_pair(prefix + "block_count", UINT32, LAYERS),
        gguf_pair(prefix + "context_length", UINT32, context),
        gguf_pair(prefix + "embedding_length", UINT32, HIDDEN),
        gguf_pair(prefix + "feed_forward_length", UINT32, FEED_FORWARD),
        gguf_pair(prefix + "attention.head_count", UINT32, QUERY_HEADS),
        gguf_pair(prefix + "attention.head_count_kv", UINT32, KV_HEADS),
        gguf_pair(prefix + "attention.layer_norm_rms_epsilon", FLOAT32, 1e-5),
        gguf_pair(prefix + "rope.freq_base", FLOAT32, 10000.0),
        gguf_pair("tokenizer.ggml.model", STRING, "gpt2"),
        gguf_pair("tokenizer.ggml.pre", STRING, "gpt-2"),
        gguf_pair("tokenizer.ggml.tokens", ARRAY, (STRING, TOKENS)),
        gguf_pair("tokenizer.ggml.token_type", ARRAY, (INT32, [1] * (len(TOKENS) - 1) + [3])),
        gguf_pair("tokenizer.ggml.merges", ARRAY, (STRING, ["h e"])),
        gguf_pair("tokenizer.ggml.eos_token_id", UINT32, len(TOKENS) - 1),
    ]


def padding(size):
    return b"\0" * (-size % ALIGNMENT)


def write_gguf(path, edits):
    generator = random.Random(0)
    infos, data, count = b"", b"", 0
    for name, _, shape in tensor_shapes():
        if name == edits.get("drop"):
            continue
        kind = F32 if len(shape) == 1 else F16
        body = struct.pack(f"<{elements(shape)}{'f' if kind == F32 else 'e'}", *values(shape, generator))
        stated_kind = int(edits.get("dtype", kind)) if count == 0 else kind
        stated_offset = int(edits.get("offset", len(data))) if count == 0 else len(data)
        infos += gguf_string(name) + struct.pack("<I", len(shape))
        infos += b"".join(struct.pack("<Q", extent) for extent in reversed(shape))
        infos += struct.pack("<IQ", stated_kind, stated_offset)
        data += body + padding(len(body))
        count += 1
    metadata = gguf_metadata(edits.get("architecture", "llama"), int(edits.get("context", 256)))
    head = edits.get("magic", "GGUF").encode() + struct.pack(
        "<IQQ", int(edits.get("version", 3)), int(edits.get("tensors", count)), len(metadata)
    )
    head += b"".join(metadata) + infos
    content = head + padding(len(head)) + data
    pathlib.Path(path).write_bytes(content[: int(edits.get("truncate", len(content)))])


def kv_scales(edits):
    if "kv_scales" not in edits:
        return
    for n in range(LAYERS):
        for side in "kv":
            module = f"{side}_proj." if edits.get("for") == "modelopt" else ""
            yield f"model.layers.{n}.self_attn.{module}{side}_scale", struct.pack("<e", float(edits["kv_scales"]))


def safetensors(edits):
    generator = random.Random(0)
    header, data = {}, b""

    def add(name, shape, body):
        nonlocal data
        header[name] = {"dtype": "F16", "shape": list(shape), "data_offsets": [len(data), len(data) + len(body)]}
        data += body

    for _, name, shape in tensor_shapes():
        add(name, shape, struct.pack(f"<{elements(shape)}e", *values(shape, generator)))
    for name, body in kv_scales(edits):
        add(name, (1,), body)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def write_folder(path, edits):
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": edits.get("architecture", "llama"),
        "hidden_size": HIDDEN,
        "intermediate_size": FEED_FORWARD,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": QUERY_HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "vocab_size": len(TOKENS),
        "max_position_embeddings": int(edits.get("context", 256)),
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
    }
    if "quantization" in edits:
        config["quantization_config"] = json.loads(edits["quantization"])
    end = {"id": len(TOKENS) - 1, "content": TOKENS[-1], "single_word": False, "lstrip": False, "rstrip": False}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [{**end, "normalized": False, "special": True}],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(TOKENS)}, "merges": ["h e"]},
    }
    files = {
        "config.json": edits.get("config", json.dumps(config)).encode(),
        "tokenizer.json": json.dumps(tokenizer).encode(),
        "tokenizer_config.json": json.dumps({"eos_token": TOKENS[-1]}).encode(),
        "model.safetensors": safetensors(edits),
    }
    if "hf_quant" in edits:
        files["hf_quant_config.json"] = edits["hf_quant"].encode()
    folder = pathlib.Path(path)
    folder.mkdir()
    for name, content in files.items():
        if name == edits.get("drop"):
            continue
        if name == "model.safetensors" and "truncate" in edits:
            content = content[: int(edits["truncate"])]
        (folder / name).write_bytes(b"" if name == edits.get("empty") else content)


MAKERS = {"gguf": write_gguf, "folder": write_folder}
